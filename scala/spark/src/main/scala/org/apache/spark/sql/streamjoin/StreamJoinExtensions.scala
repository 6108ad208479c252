package org.apache.spark.sql.streamjoin

import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.streamjoin.front.sql.StreamJoinParser
import org.apache.spark.sql.streamjoin.rules.batch.{
  KeepFileReaders,
  PushFilters,
  ReadOneVersion,
  RecognizeJoins,
  ReplaceTakenOverJoins,
  StreamJoinStrategy
}
import org.apache.spark.sql.streamjoin.rules.query._
import org.apache.spark.sql.streamjoin.rules.start._
import org.apache.spark.sql.{SparkSession, SparkSessionExtensions, SparkSessionExtensionsProvider}

/**
 * Enables streamjoin: `spark.sql.extensions=org.apache.spark.sql.streamjoin.StreamJoinExtensions`.
 * A plain `df.join` or SQL `JOIN` of two streams then runs on streamjoin.
 */
final class StreamJoinExtensions extends SparkSessionExtensionsProvider {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    // SQL: the clauses that Spark's parser does not know.
    extensions.injectParser((_, other) => new StreamJoinParser(other))
    // SQL: clauses move to their joins before anything is resolved, and then become conditions.
    extensions.injectHintResolutionRule(_ => AttachClauses)
    extensions.injectResolutionRule(_ => ResolveClauses)
    // Equal windows in the condition of a join.
    extensions.injectResolutionRule(_ => ResolveWindowsOfJoins)
    // SQL: table functions, before Spark looks for functions of their names.
    extensions.injectHintResolutionRule(ResolveTableFunctions(_))
    // SQL: names of arrangements, and their joins.
    extensions.injectHintResolutionRule(_ => CheckFramesOfArrangements)
    extensions.injectHintResolutionRule(_ => MarkPossibleDeltaJoins)
    extensions.injectResolutionRule(ResolveArrangementNames(_))
    extensions.injectResolutionRule(_ => JoinByDeclaredKeys)
    extensions.injectResolutionRule(_ => JoinArrangements)
    extensions.injectPostHocResolutionRule(_ => CheckArrangedJoins)
    // Tables that a stream looks up: rematch, and bypassing Spark's cache.
    extensions.injectResolutionRule(_ => RematchTables)
    extensions.injectPostHocResolutionRule(_ => ResolveTablesUncached)
    // Functions of the API on a DataFrame, before Spark looks them up. A function of a table or a
    // DataFrame is replaced once its input is resolved; sj_bounds and sj_evolution need the whole
    // query.
    extensions.injectHintResolutionRule(ResolveFrameFunctions(_))
    extensions.injectResolutionRule(ResolveFrameCalls(_))
    extensions.injectPostHocResolutionRule(AnswerQueryFunctions(_))
    // As-of joins of two streams, before Spark's optimizer rewrites them.
    extensions.injectPostHocResolutionRule(_ => ResolveAsOfJoins)
    // start(): rejects queries, and hides joins from Spark's checker. The injection point is named
    // after hints, but the rule has nothing to do with them: it has to run before
    // ResolveWriteToStream.
    extensions.injectHintResolutionRule(PrepareStreamingQuery(_))
    // start(): the manager of checkpoint files, which must be set before Spark opens the first
    // file.
    extensions.injectHintResolutionRule(UseAtomicFiles(_))
    // start(): joins are restored after Spark's checker has run; versions get the form that the
    // checkpoint has, and a checkpoint of another join is rejected.
    extensions.injectPostHocResolutionRule(_ => RestoreJoins)
    extensions.injectPostHocResolutionRule(KeepFormOfVersions(_))
    extensions.injectPostHocResolutionRule(CheckJoinsOfCheckpoint(_))
    // start(): what tells the first batch of a changed query from one of the query before.
    extensions.injectPostHocResolutionRule(MarkNextBatch(_))
    // start(): a first batch for rows that wait for a match in a table.
    extensions.injectPostHocResolutionRule(PlanFirstBatch(_))
    // start(): an arrangement is created or continued.
    extensions.injectPostHocResolutionRule(StartArrangement(_))
    // start(): a query with a temporary checkpoint leaves no lease behind.
    extensions.injectPostHocResolutionRule(ReleaseTemporaryReaders(_))
    // start(): makes the late rows of a query readable after it has stopped.
    extensions.injectPostHocResolutionRule(RememberQueries(_))
    // start(): publishes the figures of each batch.
    extensions.injectPostHocResolutionRule(WatchQueries(_))
    // start(): checks the columns of changes that are upserted into a target.
    extensions.injectPostHocResolutionRule(StartUpsert(_))
    // A stream of an arrangement reads its changes.
    extensions.injectResolutionRule(_ => ResolveChanges)
    // Each batch: filters pass the barriers that hold left semi and anti joins in place.
    extensions.injectOptimizerRule(_ => PushFilters)
    // Each batch: our operators replace the joins once Spark's rules have run.
    extensions.injectPreCBORule(RecognizeJoins(_))
    // A query sees one version of an arrangement, no matter how often it reads it.
    extensions.injectPreCBORule(_ => ReadOneVersion)
    // Each batch: the physical operator, bound to its state and its watermarks.
    extensions.injectPlannerStrategy(StreamJoinStrategy(_))
    // Each batch: a join that has taken over one of Spark's replaces it once it has Spark's id.
    extensions.injectColumnar(_ => ReplaceTakenOverJoins)
    // Each batch: files are read as in the batch before.
    extensions.injectColumnar(_ => KeepFileReaders)
  }
}

object StreamJoinExtensions {

  /** Whether a session has the extension. */
  def isEnabled(session: SparkSession): Boolean = session match {
    case classic: ClassicSession =>
      classic.sessionState.optimizer.preCBORules.exists(_.isInstanceOf[RecognizeJoins])
    case _ => false
  }
}
