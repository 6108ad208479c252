package org.apache.spark.sql.streamjoin.rules.query

import java.util.Locale

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.analysis.{
  AnalysisContext,
  RelationTimeTravel,
  UnresolvedFunction,
  UnresolvedRelation,
  UnresolvedTable,
  UnresolvedTableOrView
}
import org.apache.spark.sql.catalyst.expressions.{Attribute, CurrentTimestampLike, Expression}
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.util.{quoteIdentifier, quoteIfNeeded}
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.arrangement.source.{
  ArrangementOptions,
  ArrangementState,
  ChangesTable,
  TableOptions
}
import org.apache.spark.sql.streamjoin.arrangement.storage.{ArrangementFolder, ArrangementMeta}
import org.apache.spark.sql.streamjoin.base.{StreamJoinConf, StreamJoinErrors}
import org.apache.spark.sql.streamjoin.joins.delta.ArrangedInputs
import org.apache.spark.sql.types.StructField
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.sql.{DataFrame, Row, SparkSession}

/**
 * Resolves the name of an arrangement, unless a table or view has that name: `STREAM orders` is the
 * stream of its changes; `orders` is its rows, which a stream looks up (also written `orders FOR
 * SYSTEM_TIME AS OF NOW()`), unless the query names a version of them. Spark calls the rule while a
 * query is analyzed, after `ResolveRelations` has found Spark's own tables and views, so queries of
 * those cost nothing here.
 */
final private[streamjoin] case class ResolveArrangementNames(session: SparkSession)
    extends Rule[LogicalPlan]
    with Logging {
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (SQLConf.get.getConf(StreamJoinConf.Arrangements).isEmpty) plan
    else {
      val read = plan.resolveOperatorsUp {
        // Spark resolves it only once it knows the time.
        case travel @ RelationTimeTravel(relation @ Named(written, name), time, version)
            if !isSparks(written) =>
          if (!time.exists(isNow) || version.isDefined) throw onlyNow(written)
          lookedUp(written, name, relation.options).copied(travel)
        case relation @ Named(written, name) =>
          val options = relation.options
          val found =
            if (relation.isStreaming) changes(written, name, options)
            else if (options.containsKey(ArrangementOptions.VersionOption)) table(written, name, options)
            else lookedUp(written, name, options)
          found.copied(relation)
        // The type of its pattern differs between the lines of Spark.
        case describe: DescribeRelation =>
          described(describe.relation).fold[LogicalPlan](describe) { meta =>
            val keys =
              Option.when(describe.isExtended)(meta.keys.map(_.mkString("(", ", ", ")")).mkString(", "))
            answer(describe.output)(
              columns(meta).map(field =>
                Row(field.name, field.dataType.simpleString, field.getComment().orNull)
              ) ++
                keys.toSeq.flatMap(keys => Seq(Row("", "", ""), Row("# Keys", keys, null)))
            )
          }
        case show: ShowColumns =>
          described(show.child).fold[LogicalPlan](show) { meta =>
            answer(show.output)(columns(meta).map(field => Row(field.name)))
          }
      }
      read.foreach {
        // Both sides have a _version and a _diff.
        case Join(left, right, NaturalJoin(_), _, _) if Seq(left, right).forall(ArrangedInputs.areIn) =>
          throw StreamJoinErrors.analysis("STREAMJOIN_DELTA.NATURAL")
        case _ =>
      }
      read
    }

  /** Matches a name as written, and returns the name of the arrangement. */
  private object Named {
    def unapply(relation: UnresolvedRelation): Option[(String, String)] =
      relation.multipartIdentifier match {
        case Seq(name) => arrangement(name).map(name -> _)
        case _ => None
      }
  }

  /** The arrangement that DESCRIBE refers to, if no table or view has the name. */
  private def described(plan: LogicalPlan): Option[ArrangementMeta] = plan match {
    case name: UnresolvedTableOrView => metaOf(name.multipartIdentifier)
    case name: UnresolvedTable => metaOf(name.multipartIdentifier)
    case _ => None
  }

  private def metaOf(parts: Seq[String]): Option[ArrangementMeta] = parts match {
    case Seq(name) =>
      arrangement(name).map(found => ArrangementFolder.open(ArrangementFolder.root(found)).current)
    case _ => None
  }

  private def columns(meta: ArrangementMeta): Seq[StructField] = meta.schema.fields.toSeq

  private def answer(output: Seq[Attribute])(rows: Seq[Row]): LogicalPlan =
    LocalRelation.fromExternalRows(output, rows)

  private def changes(written: String, name: String, options: CaseInsensitiveStringMap): Read = new Read(
    written,
    ChangesTable.stream(
      session,
      name,
      options.asCaseSensitiveMap.asScala.toMap + (ArrangementOptions.ByName -> "true")
    )
  )

  /** A table that a stream looks up at its newest version. */
  private def lookedUp(written: String, name: String, options: CaseInsensitiveStringMap): Read =
    table(written, name, options, TableOptions.Table -> "true")

  private def table(
      written: String,
      name: String,
      options: CaseInsensitiveStringMap,
      more: (String, String)*
  ): Read = new Read(
    written,
    session.read
      .format("streamjoin")
      .options(options.asCaseSensitiveMap.asScala)
      .options(more.toMap)
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
    "STREAMJOIN_TABLE.AS_OF_CLOCK",
    "arrangement" -> name,
    "name" -> quoteIfNeeded(name)
  )

  /** In a view, names refer to the catalog and the database in which it was created. */
  private def isSparks(name: String): Boolean = {
    val made = AnalysisContext.get.catalogAndNamespace
    session.catalog.tableExists(quoteIdentifier(name)) ||
    made.nonEmpty && session.catalog.tableExists((made :+ name).map(quoteIdentifier).mkString("."))
  }

  /**
   * The arrangement with a name. As for tables, case matters only if the catalog is case-sensitive.
   * An unreachable folder contains no arrangements; Spark then reports that the table does not
   * exist.
   */
  private def arrangement(name: String): Option[String] =
    try
      if (!ArrangementFolder.isName(name)) None
      else {
        val root = ArrangementFolder.root(name)
        if (ArrangementFolder.open(root).exists) Some(name)
        else if (SQLConf.get.caseSensitiveAnalysis) None
        else
          ArrangementState
            .in(ArrangementFolder.open(root.getParent))
            .map(_.getName)
            .filter(_.equalsIgnoreCase(name)) match {
            case Seq(one) => Some(one)
            case _ => None
          }
      }
    catch {
      // It is not a valid folder name.
      case _: IllegalArgumentException => None
      case NonFatal(error) =>
        logWarning(s"It is unknown whether $name is an arrangement: ${error.getMessage}", error)
        None
    }
}
