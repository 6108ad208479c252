package org.apache.spark.sql.streamjoin.rules

import java.sql.Timestamp

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.arrangement.{ArrangementOptions, ArrangementState}
import org.apache.spark.sql.streamjoin.base.StreamJoinConf
import org.apache.spark.sql.streamjoin.sql.TableFunction
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.unsafe.types.UTF8String

/** The arrangements of a folder, or one of them, as a table. */
private[streamjoin] object ArrangementsOfFolder {
  val Function: TableFunction = TableFunction(
    "sj_arrangements",
    "SELECT * FROM sj_arrangements(), or sj_arrangements('name or path') for one of them"
  )

  private val Reader: StructType = new StructType()
    .add("name", StringType, nullable = false)
    .add("version", LongType, nullable = false)
    .add("versions_behind", LongType, nullable = false)
    .add("since", TimestampType, nullable = false)

  /** The versions, their rows and who writes them are null before the first version. */
  val Schema: StructType = new StructType()
    .add("name", StringType, nullable = false)
    .add("path", StringType, nullable = false)
    .add("keys", ArrayType(ArrayType(StringType, false), false), nullable = false)
    .add("input", StringType, nullable = false)
    .add("oldest_version", LongType)
    .add("newest_version", LongType)
    .add("rows", LongType, nullable = false)
    .add("bytes", LongType, nullable = false)
    .add("partitions", IntegerType, nullable = false)
    .add("readers", ArrayType(Reader, false), nullable = false)
    .add("versions_behind", LongType)
    .add("query_id", StringType)

  def row(state: ArrangementState): Row = Row(
    state.root.getName,
    state.root.toString,
    state.meta.keys,
    state.meta.input.name,
    state.versions.map(_._1).orNull,
    state.versions.map(_._2).orNull,
    state.rows,
    state.bytes,
    state.meta.partitions,
    state.readers.map { reader =>
      Row(reader.name, reader.version, reader.versionsBehind, new Timestamp(reader.sinceMs))
    },
    state.readers.map(_.versionsBehind).maxOption.orNull,
    state.queryId.map(_.toString).orNull
  )
}

/** `sj_arrangements()`, and `sj_arrangements('name or path')`: as they are while it is analyzed. */
final private[streamjoin] case class ReadArrangements(session: SparkSession) extends Rule[LogicalPlan] {
  import ArrangementsOfFolder.{Function, Schema, row}

  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsDown {
    case call: UnresolvedTableValuedFunction if Function.isCalledBy(call, session) =>
      val roots = call.functionArgs match {
        case Seq() => inFolder(call)
        case Seq(Literal(name: UTF8String, _: StringType)) => Seq(ArrangementOptions.root(name.toString))
        case _ =>
          throw Function.refused("takes the name or the path of an arrangement, or nothing", call.origin)
      }
      val states = roots.map(root => ArrangementState.of(ArrangementOptions.open(root)))
      LocalRelation.fromExternalRows(DataTypeUtils.toAttributes(Schema), states.map(row))
  }

  private def inFolder(call: UnresolvedTableValuedFunction): Seq[Path] = {
    val folder = SQLConf.get.getConf(StreamJoinConf.Arrangements).getOrElse {
      throw Function.refused(
        s"lists the folder ${StreamJoinConf.Arrangements.key}, which is not set",
        call.origin
      )
    }
    ArrangementState.in(ArrangementOptions.open(new Path(folder)))
  }
}
