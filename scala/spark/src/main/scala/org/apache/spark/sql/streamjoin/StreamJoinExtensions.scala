package org.apache.spark.sql.streamjoin

import org.apache.spark.sql.streamjoin.operators.arrange.StartArrangement
import org.apache.spark.sql.streamjoin.rules.{
  AnswerBounds,
  CheckArrangedJoins,
  CheckCheckpoint,
  CheckFramesOfArrangements,
  JoinArrangements,
  JoinByDeclaredKeys,
  PlanFirstBatch,
  PrepareStreamingQuery,
  PushFilters,
  ReadArrangements,
  ReadArrangementsByName,
  ReadAsOfJoins,
  ReadBounds,
  ReadChanges,
  ReadLateRows,
  ReadTablesUncached,
  RecognizeJoins,
  RematchTables,
  RestoreJoins,
  StreamJoinStrategy,
  UseLocalFiles
}
import org.apache.spark.sql.streamjoin.sql.{
  AttachClauses,
  ReadImposeOrder,
  ResolveClauses,
  ResolveImposeOrder,
  StreamJoinParser
}
import org.apache.spark.sql.{SparkSessionExtensions, SparkSessionExtensionsProvider}

/**
 * Switches streamjoin on:
 * `spark.sql.extensions=org.apache.spark.sql.streamjoin.StreamJoinExtensions`. Nothing else is
 * needed; a plain `df.join` or SQL `JOIN` of two streams then runs on it.
 */
final class StreamJoinExtensions extends SparkSessionExtensionsProvider {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    // SQL: the clauses that Spark's parser does not know.
    extensions.injectParser((_, other) => new StreamJoinParser(other))
    // SQL: they move to their joins before anything is resolved, and become conditions after.
    extensions.injectHintResolutionRule(_ => AttachClauses)
    extensions.injectResolutionRule(_ => ResolveClauses)
    // SQL: IMPOSE_ORDER, before Spark looks for a function of that name.
    extensions.injectHintResolutionRule(ReadImposeOrder(_))
    extensions.injectResolutionRule(_ => ResolveImposeOrder)
    // SQL: arrangements by their names, and their joins.
    extensions.injectHintResolutionRule(_ => CheckFramesOfArrangements)
    extensions.injectResolutionRule(ReadArrangementsByName(_))
    extensions.injectResolutionRule(_ => JoinByDeclaredKeys)
    extensions.injectResolutionRule(_ => JoinArrangements)
    extensions.injectPostHocResolutionRule(_ => CheckArrangedJoins)
    // A table that rows of a stream may meet later.
    extensions.injectResolutionRule(_ => RematchTables)
    extensions.injectPostHocResolutionRule(_ => ReadTablesUncached)
    // SQL: sj_bounds, sj_late_rows and sj_arrangements. The query of sj_bounds is analyzed first.
    extensions.injectHintResolutionRule(ReadBounds(_))
    extensions.injectHintResolutionRule(ReadLateRows(_))
    extensions.injectHintResolutionRule(ReadArrangements(_))
    extensions.injectPostHocResolutionRule(AnswerBounds(_))
    // As-of joins of two streams, before Spark's optimizer rewrites them.
    extensions.injectPostHocResolutionRule(_ => ReadAsOfJoins)
    // start(): refusals, and what Spark's checker need not see. The name of the injection point is
    // Spark's; the rule has nothing to do with hints, it has to run before ResolveWriteToStream.
    extensions.injectHintResolutionRule(PrepareStreamingQuery(_))
    // start(): the checkpoint's files. Here for the same reason: before Spark opens the first of
    // them.
    extensions.injectHintResolutionRule(UseLocalFiles(_))
    // start(): Spark's checker has seen the query; a checkpoint that another join began.
    extensions.injectPostHocResolutionRule(_ => RestoreJoins)
    extensions.injectPostHocResolutionRule(CheckCheckpoint(_))
    // start(): rows that wait for a table meet it as it is by now.
    extensions.injectPostHocResolutionRule(PlanFirstBatch(_))
    // start(): an arrangement begins, or goes on.
    extensions.injectPostHocResolutionRule(StartArrangement(_))
    // A stream of an arrangement is one of its changes.
    extensions.injectResolutionRule(_ => ReadChanges)
    // Each batch: a filter past what keeps a left semi or anti join in its place.
    extensions.injectOptimizerRule(_ => PushFilters)
    // Each batch: the joins as ours, once Spark's rules are done with them.
    extensions.injectPreCBORule(RecognizeJoins(_))
    // Each batch: the operator, bound to its state and its watermarks.
    extensions.injectPlannerStrategy(StreamJoinStrategy(_))
  }
}
