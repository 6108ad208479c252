package org.apache.spark.sql.streamjoin

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.expressions.{Attribute, CurrentBatchTimestamp, EqualTo, Expression}
import org.apache.spark.sql.streamjoin.analysis.{JoinNames, PredicateParts}
import org.apache.spark.sql.streamjoin.plans.IntervalJoin
import org.apache.spark.sql.{AnalysisException, SparkSession}

/** What has to stay as it is for the state of a join to go on meaning the same, as text. */
final private[streamjoin] case class JoinDescription(properties: Map[String, String]) {

  /** As it is recorded, once it is known with how many tasks the join begins. */
  def withTasks(tasks: Int): JoinDescription =
    JoinDescription(properties + (JoinDescription.Tasks -> tasks.toString))
}

private[streamjoin] object JoinDescription {
  val Type = "the join type"
  val Equality = "the equality"
  val Condition = "the condition"
  val LeftRows = "the left input's columns"
  val RightRows = "the right input's columns"
  val Tasks = "the number of partitions"
  val Number = "the number of joins"

  /** What the query says, known before it runs. The columns that are kept may still differ after planning. */
  val Written: Seq[String] = Seq(Type, Equality, Condition)

  /** What has to be as it was. The number of tasks is not the query's to say: it is read from the record. */
  val Same: Seq[String] = Written ++ Seq(LeftRows, RightRows)

  def of(join: IntervalJoin): JoinDescription = {
    val equalities = join.leftKeys.zip(join.rightKeys).map { case (l, r) => EqualTo(l, r) }
    JoinDescription(
      Map(
        Type -> join.plan.joinType.name,
        Equality -> text(join.left.output, join.right.output, PredicateParts.all(equalities)),
        Condition -> join.plan.written,
        LeftRows -> rows(join.left.output),
        RightRows -> rows(join.right.output)
      )
    )
  }

  /** A condition, the same in every run: neither the time of a batch nor the numbers that Spark gives are part of it. */
  def text(left: Seq[Attribute], right: Seq[Attribute], condition: Option[Expression]): String =
    condition.fold("true") { expression =>
      val timeless = expression.transform { case now: CurrentBatchTimestamp => now.copy(timestampMs = 0L) }
      lasting(JoinNames.plain(left, right).text(timeless))
    }

  private def rows(output: Seq[Attribute]): String =
    lasting(output.map(column => s"${column.name} ${column.dataType.sql}").mkString(", "))

  /** `RewriteWithExpression` numbers its columns over all queries of the application. */
  private def lasting(text: String): String = text.replaceAll("_common_expr_\\d+", "_common_expr")
}

/** `<checkpoint>/stream-joins/<n>`: the joins of a query, written before their first batch. */
final private[streamjoin] class JoinLog(session: SparkSession, checkpoint: Path)
    extends JsonLog[JoinDescription](session, checkpoint, JoinLog.Directory) {
  import JoinLog.changed

  override protected def version: Int = 1

  override protected def toJson(entry: JoinDescription, root: ObjectNode): Unit =
    entry.properties.toSeq.sorted.foreach { case (name, value) => root.put(name, value) }

  override protected def fromJson(root: JsonNode): JoinDescription =
    JoinDescription(
      root.properties().asScala.filter(_.getKey != "version").map(e => e.getKey -> e.getValue.asText).toMap
    )

  /** With how many tasks a join has begun. */
  def tasks(ordinal: Int): Option[Int] =
    get(ordinal.toLong).map { recorded =>
      val tasks = recorded.properties.get(JoinDescription.Tasks).flatMap(_.toIntOption)
      tasks.getOrElse(
        throw JsonLog.unreadable(batchIdToPath(ordinal.toLong), "it has no number of partitions")
      )
    }

  /** The properties of a join that are named have to be as they were when it was recorded, if it was. */
  def verify(join: IntervalJoin, names: Seq[String]): Unit =
    get(join.plan.ordinal.toLong).foreach { recorded =>
      val now = JoinDescription.of(join)
      names
        .map(name => (name, recorded.properties.getOrElse(name, "nothing"), now.properties(name)))
        .foreach { case (name, was, is) => if (was != is) throw changed(checkpoint, name, was, is) }
    }

  /** Before the first batch of a run. */
  def verifyOrRecord(join: IntervalJoin, tasks: Int): Unit =
    if (!add(join.plan.ordinal.toLong, JoinDescription.of(join).withTasks(tasks))) verify(join, JoinDescription.Same)
}

private[streamjoin] object JoinLog {
  val Directory = "stream-joins"

  /** The error for a property that is no longer what it was. */
  def changed(checkpoint: Path, what: String, was: String, is: String): AnalysisException =
    StreamJoinErrors.analysis(
      "STREAMJOIN_CHECKPOINT_CHANGED",
      "checkpoint" -> checkpoint.toString,
      "what" -> what,
      "was" -> was,
      "is" -> is
    )
}
