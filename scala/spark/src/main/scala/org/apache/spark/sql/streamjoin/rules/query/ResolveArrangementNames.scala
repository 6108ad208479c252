package org.apache.spark.sql.streamjoin.rules.query

import java.util.Locale

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.analysis.{
  AnalysisContext,
  RelationTimeTravel,
  UnresolvedFunction,
  UnresolvedRelation
}
import org.apache.spark.sql.catalyst.expressions.{CurrentTimestampLike, Expression}
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.util.quoteIdentifier
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.arrangement.source.{ArrangementOptions, ChangesTable, TableOptions}
import org.apache.spark.sql.streamjoin.arrangement.storage.ArrangementFolder
import org.apache.spark.sql.streamjoin.base.{StreamJoinConf, StreamJoinErrors}
import org.apache.spark.sql.streamjoin.joins.delta.{ArrangedInputs, DeltaJoinOf}
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.sql.{DataFrame, SparkSession}

/**
 * Resolves the name of an arrangement, unless a table or view has that name: `STREAM orders` is the
 * stream of its changes, `orders` are its rows, which a stream looks up (also written
 * `orders FOR SYSTEM_TIME AS OF NOW()`). Spark calls the rule while a query is analyzed, after
 * `ResolveRelations` has found Spark's own tables and views; so queries of those cost nothing here.
 */
final private[streamjoin] case class ResolveArrangementNames(session: SparkSession)
    extends Rule[LogicalPlan]
    with Logging {
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (SQLConf.get.getConf(StreamJoinConf.Arrangements).isEmpty) plan
    else {
      val read = plan.resolveOperatorsUp {
        // Spark resolves it only once it knows the time.
        case travel @ RelationTimeTravel(relation @ Named(name), time, version) if !isSparks(name) =>
          if (!time.exists(isNow) || version.isDefined) throw onlyNow(name)
          table(name, relation.options).copied(travel)
        case relation @ Named(name) =>
          val options = relation.options
          (if (relation.isStreaming) changes(name, options) else table(name, options)).copied(relation)
      }
      read.foreach {
        // Both sides have a _version and a _diff.
        case Join(left, right, NaturalJoin(_), _, _) if Seq(left, right).forall(ArrangedInputs.areIn) =>
          throw DeltaJoinOf.refused("it is a NATURAL join", "Name the columns: USING (...), or ON.")
        case _ =>
      }
      read
    }

  private object Named {
    def unapply(relation: UnresolvedRelation): Option[String] = relation.multipartIdentifier match {
      case Seq(name) if isArrangement(name) => Some(name)
      case _ => None
    }
  }

  private def changes(name: String, options: CaseInsensitiveStringMap): Read = new Read(
    name,
    ChangesTable.stream(
      session,
      name,
      options.asCaseSensitiveMap.asScala.toMap + (ArrangementOptions.ByName -> "true")
    )
  )

  private def table(name: String, options: CaseInsensitiveStringMap): Read = new Read(
    name,
    session.read
      .format("streamjoin")
      .options(options.asCaseSensitiveMap.asScala)
      .option(TableOptions.Table, true)
      .load(name)
  )

  private class Read(name: String, rows: DataFrame) {

    /** Replaces a relation of the query. */
    def copied(relation: LogicalPlan): LogicalPlan = {
      val alias = SubqueryAlias(name, rows.asInstanceOf[ClassicDataset[_]].queryExecution.analyzed)
      alias.copyTagsFrom(relation)
      alias
    }
  }

  private def isNow(time: Expression): Boolean = time match {
    case UnresolvedFunction(Seq(name), Seq(), _, _, _, _, _) => Now.contains(name.toLowerCase(Locale.ROOT))
    case _: CurrentTimestampLike => true
    case _ => false
  }

  private val Now = Set("now", "current_timestamp")

  private def onlyNow(name: String) = StreamJoinErrors.analysis(
    "STREAMJOIN_TABLE",
    "arrangement" -> name,
    "problem" -> "an arrangement is looked up as it is, or has versions, but no rows as of a time of the clock",
    "advice" -> "Write FOR SYSTEM_TIME AS OF NOW(), or read a version: spark.read.format('streamjoin').option('version', 3)."
  )

  /** In a view, names refer to the catalog and the database in which it was created. */
  private def isSparks(name: String): Boolean = {
    val made = AnalysisContext.get.catalogAndNamespace
    session.catalog.tableExists(quoteIdentifier(name)) ||
    made.nonEmpty && session.catalog.tableExists((made :+ name).map(quoteIdentifier).mkString("."))
  }

  /** An unreachable folder has no arrangement; Spark then reports that there is no such table. */
  private def isArrangement(name: String): Boolean =
    try ArrangementFolder.open(ArrangementFolder.root(name)).exists
    catch {
      // Not a valid name of a folder.
      case _: IllegalArgumentException => false
      case NonFatal(error) =>
        logWarning(s"Whether $name is an arrangement cannot be told: ${error.getMessage}", error)
        false
    }
}
