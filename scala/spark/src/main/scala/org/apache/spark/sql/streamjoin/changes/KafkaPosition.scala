package org.apache.spark.sql.streamjoin.changes

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.InlineCTE
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.streamjoin.watermark.{DropPunctuation, IdleAfter}
import org.apache.spark.sql.types.Metadata
import org.apache.spark.sql.{DataFrame, Row}

/**
 * The position of a row in Kafka: partition and offset, which define the order in which the
 * messages of a key were written. They are added at the scan if there are only projections and
 * filters in between, so that a query does not have to select them. Views and common tables are
 * looked through, and Debezium's envelope is read row by row ([[ReadChange]]).
 */
private[streamjoin] object KafkaPosition {

  /** Names of the two columns that are added at the end. */
  val Columns: Seq[String] = Seq("_streamjoin_partition", "_streamjoin_offset")

  /** The DataFrame with the two columns, if its rows come unchanged from Kafka. */
  def added(df: DataFrame): Option[DataFrame] = {
    val classic = df.asInstanceOf[ClassicDataset[Row]]
    added(classic.queryExecution.analyzed, Metadata.empty).map { case (plan, _) =>
      ClassicDataset.ofRows(classic.sparkSession, plan)
    }
  }

  /** A resolved plan with the two columns, and the columns with their metadata. */
  def added(plan: LogicalPlan, metadata: Metadata): Option[(LogicalPlan, Seq[Attribute])] = {
    def carried(plan: LogicalPlan): Option[(LogicalPlan, Seq[Attribute])] = plan match {
      case relation: StreamingRelationV2 if isKafka(relation) =>
        val found = Seq("partition", "offset").flatMap(name => relation.output.find(_.name == name))
        Option.when(found.size == 2) {
          val added = found.zip(Columns).map { case (column, name) =>
            Alias(column, name)(explicitMetadata = Some(metadata))
          }
          (Project(relation.output ++ added, relation), added.map(_.toAttribute))
        }
      case Project(list, child) if list.forall(_.deterministic) =>
        carried(child).map { case (below, added) => (Project(list ++ added, below), added) }
      case view: View => carried(view.child)
      case tables: WithCTE =>
        carried(AnalysisHelper.allowInvokingTransformsInAnalyzer(InlineCTE(alwaysInline = true)(tables)))
      case passing if isPassedOn(passing) =>
        carried(passing.children.head).map { case (below, added) =>
          (passing.withNewChildren(Seq(below)), added)
        }
      case _ => None
    }
    carried(plan)
  }

  private def isKafka(relation: StreamingRelationV2): Boolean = relation.sourceName.equalsIgnoreCase("kafka")

  /** Whether the rows of an operator are a subset of those below it, with all of their columns. */
  private def isPassedOn(operator: LogicalPlan): Boolean = operator match {
    case _: Filter | _: SubqueryAlias | _: EventTimeWatermark | _: DropPunctuation | _: IdleAfter |
        _: ResolvedHint | _: CollectMetrics | _: RepartitionOperation =>
      true
    case generate: Generate =>
      generate.generator match {
        case Explode(_: ReadChange) => true
        case _ => false
      }
    case _ => false
  }
}
