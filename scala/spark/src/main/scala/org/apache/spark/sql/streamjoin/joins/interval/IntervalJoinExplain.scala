package org.apache.spark.sql.streamjoin.joins.interval

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.streamjoin.operator.explain.{JoinNames, WatermarkExplain}

/** The description of a join in EXPLAIN. */
final private[interval] class IntervalJoinExplain(
    join: IntervalJoinSpec,
    times: Seq[Attribute],
    names: JoinNames,
    watermarks: WatermarkExplain
) {

  def description(
      leftKeys: Seq[Expression],
      rightKeys: Seq[Expression],
      condition: Option[Expression],
      tasks: Int
  ): Seq[String] = {
    val equality = leftKeys.zip(rightKeys).map { case (l, r) => s"${names.text(l)} = ${names.text(r)}" }
    Seq(
      join.joinType.name,
      if (equality.isEmpty) "no equality" else equality.mkString("equality ", " AND ", ""),
      new BoundsExplain(join, times, names).all.mkString("bounds ", "; ", ""),
      condition.map(names.text).fold("no other condition")("condition " + _),
      watermarks.inWords,
      routing(tasks)
    )
  }

  private def routing(tasks: Int): String = join.routing match {
    case Routing.ByKey => s"routing by hash of the equality over $tasks tasks, one state store each"
    case Routing.Spread(side) =>
      s"routing without an equality: ${names.name(side.other)} spread over $tasks tasks, one state store each; " +
        s"${names.name(side)} sent to all of them and kept in the first one's store"
    case Routing.OneTask =>
      "routing of a full outer join without an equality: all rows to one task, with one state store"
  }
}
