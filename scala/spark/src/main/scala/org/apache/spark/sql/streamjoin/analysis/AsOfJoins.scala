package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{AsOfJoin, Filter, Join, JoinHint, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.plans.{Inner, LeftOuter}
import org.apache.spark.sql.streamjoin.base.{PredicateParts, StreamJoinErrors}
import org.apache.spark.sql.streamjoin.plans.AsOfMatch
import org.apache.spark.sql.types.{DayTimeIntervalType, StringType, TimestampType}

import streamjoin.core.AsOf

/**
 * The columns of a temporal join.
 *
 * @param asOf
 *   the event time of the left input
 * @param key
 *   they tell the rows of the table apart
 * @param time
 *   from when on a version is valid
 * @param op
 *   says whether a row is a version, or takes its key away; without it all are versions
 * @param order
 *   of two rows with one key and one time, that with the larger value comes later
 * @tparam C
 *   a name, or the column that it means
 */
final private[streamjoin] case class TemporalColumns[C](
    asOf: C,
    key: Seq[C],
    time: C,
    op: Option[C],
    order: Option[C] = None
)

/**
 * Joins of a stream with what was valid at the time of its rows, or is closest to it, from plain
 * joins. Pure: analyzed plans in, analyzed plans out.
 *
 * @param call
 *   what the user has called, for errors
 * @param kind
 *   `temporal` or `as-of`
 * @param where
 *   its place in a query, as Spark shows it below an error
 * @param ordered
 *   the rows of a batch come in the order of the left time
 */
final private[streamjoin] class AsOfJoins(
    call: String,
    kind: String,
    where: Option[String] = None,
    ordered: Boolean = true
) {
  private val inputs = new StreamInput(call)

  /**
   * Each row of the left input with the version of its key that was valid at its time.
   *
   * @param joined
   *   the join, resolved; its condition has an equality for each column of the key
   * @param history
   *   a duration: [[AsOf.history]]
   */
  def temporal(
      joined: LogicalPlan,
      names: TemporalColumns[String],
      history: Option[String]
  ): LogicalPlan = of(joined) { join =>
    def ofRight(name: String) = inputs.column(join.right, name)
    val columns = TemporalColumns(
      inputs.column(join.left, names.asOf),
      names.key.map(ofRight),
      ofRight(names.time),
      names.op.map(ofRight),
      names.order.map(ofRight)
    )
    temporal(join, columns, history)
  }

  /** The same, of columns that are known. */
  def temporalOf(
      joined: LogicalPlan,
      columns: TemporalColumns[Attribute],
      history: Option[String]
  ): LogicalPlan = of(joined)(temporal(_, columns, history))

  private def temporal(
      join: Join,
      columns: TemporalColumns[Attribute],
      history: Option[String]
  ): LogicalPlan = {
    checkAppendOnly(join.left)
    if (columns.key.isEmpty)
      throw refused("the versions have no key", "Write key=[\"id\"]: the columns that tell the rows apart.")
    val conjuncts = conjunctsOf(join)
    val keys = columns.key.map { key =>
      conjuncts.flatMap(tied(_, join)).find(tie => isKey(tie.right, key)).getOrElse(throw notTied(key, join))
    }
    val used = keys.map(_.conjunct)
    columns.op.foreach(checkOperation)
    columns.order.foreach(checkOrder)
    val rule = AsOf(history = history.fold(0L)(length("history", _)))
    AsOfMatch(
      join.left,
      join.right,
      rule,
      inputs.timestamp(columns.asOf),
      inputs.timestamp(columns.time),
      keys.map(_.left),
      keys.map(_.right),
      columns.op,
      // Where an order is given, a column that nobody reads is not kept for one.
      columns.order.fold(columns.op.toSeq ++ ties(join.right))(_ +: columns.op.toSeq),
      PredicateParts.all(conjuncts.filterNot(conjunct => used.exists(_ eq conjunct))),
      join.joinType == LeftOuter,
      ordered
    )
  }

  /**
   * Each row of the left input with the closest of the right one that has its key.
   *
   * @param condition
   *   how the times compare, resolved: `l.t >= r.t`, `>`, `<=` or `<`
   */
  def asOf(joined: LogicalPlan, condition: Expression, tolerance: Option[String]): LogicalPlan =
    of(joined) { join =>
      val (left, right, direction, exact) = compared(condition, join)
      closest(join, left, right, direction, exact, tolerance.map(length("tolerance", _)))
    }

  /**
   * The join of Spark's own node, of which no more is left than how the times compare. Where the
   * times may not be the same, those at the far end of its tolerance are too far apart.
   */
  def asOf(node: AsOfJoin): LogicalPlan =
    checked(
      Join(node.left, node.right, node.joinType, node.condition, JoinHint.NONE),
      join => {
        val conjuncts = PredicateParts.conjuncts(node.asOfCondition)
        val (left, right, direction, exact) = node.orderExpression match {
          case If(isLater, _, _) =>
            val (left, right, _, _) = compared(isLater, join)
            (left, right, AsOf.Nearest, !conjuncts.exists(_.isInstanceOf[Not]))
          case _ => compared(conjuncts.head, join)
        }
        val tolerance = node.toleranceAssertion.collect { case GreaterThanOrEqual(length, _) =>
          micros(length)
        }
        val within = if (exact) tolerance else tolerance.map(by => math.max(by - 1, 0))
        closest(join, left, right, direction, exact, within)
      }
    )

  private def micros(tolerance: Expression): Long = tolerance.dataType match {
    case _: DayTimeIntervalType => tolerance.eval().asInstanceOf[Long]
    case _ => throw inputs.duration("tolerance", tolerance.sql, "it is no interval of days, hours or seconds")
  }

  /**
   * The same, by the names of the event-time columns.
   *
   * @param direction
   *   `backward`, `forward` or `nearest`
   */
  def asOf(
      joined: LogicalPlan,
      leftTime: String,
      rightTime: String,
      direction: String,
      allowsExact: Boolean,
      tolerance: Option[String]
  ): LogicalPlan = of(joined) { join =>
    val where = AsOf.directions.find(_.toString.equalsIgnoreCase(direction)).getOrElse {
      throw refused(
        s"direction=\"$direction\" is none",
        "It is \"backward\", \"forward\" or \"nearest\"."
      )
    }
    val (left, right) = (inputs.timestamp(join.left, leftTime), inputs.timestamp(join.right, rightTime))
    closest(join, left, right, where, allowsExact, tolerance.map(length("tolerance", _)))
  }

  private def closest(
      join: Join,
      leftTime: Attribute,
      rightTime: Attribute,
      direction: AsOf.Direction,
      allowsExact: Boolean,
      tolerance: Option[Long]
  ): LogicalPlan = {
    if (direction != AsOf.Backward && tolerance.isEmpty)
      throw refused(
        s"a row of the left input would wait for ever for one of the right input at or after its ${leftTime.name}",
        "Write how far apart they may be: tolerance=\"10 minutes\"."
      )
    val conjuncts = conjunctsOf(join)
    val (equalities, besides) = conjuncts.partition(tied(_, join).nonEmpty)
    // The closest of those that satisfy it: what is not a candidate does not come in.
    val (ofRight, others) = besides.partition(isOf(join.right))
    others.filterNot(isOf(join.left)).headOption.foreach { mixed =>
      throw refused(
        s"${mixed.sql} is neither an equality between the inputs nor about one of them",
        "Compare the rows after the join: joined.where(...). It does not choose another match then."
      )
    }
    val keys = equalities.flatMap(tied(_, join).headOption)
    AsOfMatch(
      join.left,
      PredicateParts.all(ofRight).fold(join.right)(Filter(_, join.right)),
      AsOf(direction, allowsExact, tolerance),
      leftTime,
      rightTime,
      keys.map(_.left),
      keys.map(_.right),
      None,
      ties(join.right),
      PredicateParts.all(others),
      join.joinType == LeftOuter,
      ordered
    )
  }

  /** With what is around the join, where Spark has put the names of `USING` there. */
  private def of(joined: LogicalPlan)(made: Join => LogicalPlan): LogicalPlan = joined match {
    case names @ Project(_, join: Join) => names.withNewChildren(Seq(checked(join, made)))
    case join: Join => checked(join, made)
    case other => throw new IllegalArgumentException(s"no join: $other")
  }

  private def checked(join: Join, made: Join => LogicalPlan): LogicalPlan = {
    join.joinType match {
      case Inner | LeftOuter =>
      case other =>
        throw refused(
          s"it is a ${other.sql} join",
          "Write how=\"inner\" or how=\"left\": the rows of the left input are those that find a match, or none."
        )
    }
    Seq("left" -> join.left, "right" -> join.right).find(!_._2.isStreaming).foreach { case (side, _) =>
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_NOT_A_STREAM",
        "call" -> call,
        "wanted" -> "two streams",
        "found" -> s"the $side input is a batch",
        "advice" -> "Read it by spark.readStream, with a watermark on its time; two batches are joined by Spark itself."
      )
    }
    made(join)
  }

  // Conditions.

  private def conjunctsOf(join: Join): Seq[Expression] = {
    val all = join.condition.toSeq.flatMap(PredicateParts.conjuncts).filterNot(_ == Literal.TrueLiteral)
    all.find(conjunct => !runsInTask(conjunct)).foreach { conjunct =>
      throw refused(
        s"${conjunct.sql} has a random value, a subquery or a Python function",
        "Compute a column from it before the join, or compare after it: joined.where(...)."
      )
    }
    all
  }

  private def runsInTask(conjunct: Expression): Boolean =
    conjunct.deterministic && !conjunct.exists {
      case _: PythonFuncExpression | _: SubqueryExpression => true
      case _ => false
    }

  private case class Tie(conjunct: Expression, left: Expression, right: Expression)

  /** An equality between the inputs, either way round. */
  private def tied(conjunct: Expression, join: Join): Seq[Tie] = conjunct match {
    case EqualTo(a, b) =>
      Seq(Tie(conjunct, a, b), Tie(conjunct, b, a)).filter { tie =>
        isOf(join.left)(tie.left) && isOf(join.right)(tie.right)
      }
    case _ => Nil
  }

  private def isOf(input: LogicalPlan)(expression: Expression): Boolean =
    expression.deterministic && expression.references.nonEmpty &&
      expression.references.subsetOf(input.outputSet)

  /** Also where Spark made it a wider type, to compare it; two keys stay two. */
  private def isKey(expression: Expression, key: Attribute): Boolean = expression match {
    case column: Attribute => column.exprId == key.exprId
    case cast: Cast => EquiKeys.isOneToOne(cast.child.dataType, cast.dataType) && isKey(cast.child, key)
    case _ => false
  }

  private def compared(condition: Expression, join: Join): (Attribute, Attribute, AsOf.Direction, Boolean) = {
    def times(a: Expression, b: Expression) = (a, b) match {
      case (left: Attribute, right: Attribute)
          if join.left.outputSet.contains(left) && join.right.outputSet.contains(right) &&
            Seq(left, right).forall(_.dataType == TimestampType) =>
        Some(left -> right)
      case _ => None
    }
    def either(
        a: Expression,
        b: Expression,
        direction: AsOf.Direction,
        other: AsOf.Direction,
        exact: Boolean
    ) =
      times(a, b)
        .map { case (left, right) => (left, right, direction, exact) }
        .orElse(times(b, a).map { case (left, right) => (left, right, other, exact) })
    val found = condition match {
      case GreaterThanOrEqual(a, b) => either(a, b, AsOf.Backward, AsOf.Forward, exact = true)
      case GreaterThan(a, b) => either(a, b, AsOf.Backward, AsOf.Forward, exact = false)
      case LessThanOrEqual(a, b) => either(a, b, AsOf.Forward, AsOf.Backward, exact = true)
      case LessThan(a, b) => either(a, b, AsOf.Forward, AsOf.Backward, exact = false)
      case _ => None
    }
    found.getOrElse {
      throw refused(
        s"${condition.sql} does not compare the event times of the two inputs",
        "Write match=\"l.t >= r.t\", or with >, <= or <: one TIMESTAMP column of each input, with a watermark each."
      )
    }
  }

  // Columns.

  /** A column of an input by its name. */
  def column(input: LogicalPlan, name: String): Attribute = inputs.column(input, name)

  private def checkOperation(column: Attribute): Unit =
    if (!column.dataType.isInstanceOf[StringType])
      throw inputs.wrong(
        column.name,
        s"op is a column of text, and this is ${column.dataType.sql}",
        "Name the column with insert, update or delete, or with c, r, u or d."
      )

  private def checkOrder(column: Attribute): Unit =
    if (!RowOrdering.isOrderable(column.dataType))
      throw inputs.wrong(
        column.name,
        s"order is a column whose values can be compared, and this is ${column.dataType.sql}",
        "Name a number or a time, such as the position in the log of the changes."
      )

  private def ties(right: LogicalPlan): Seq[Attribute] =
    right.output.filter(column => RowOrdering.isOrderable(column.dataType))

  private def length(argument: String, text: String): Long = {
    val micros = inputs.length(argument, text)
    if (micros < 0) throw inputs.duration(argument, text, "it is negative")
    micros
  }

  // Refusals.

  private def checkAppendOnly(stream: LogicalPlan): Unit =
    stream.output.find(column => AsOfJoins.Changes.contains(column.name)).foreach { column =>
      throw refused(
        s"the stream has the column ${column.name}: its rows take others back",
        s"What has come out cannot be taken back. Keep the rows that come, and drop the column ${column.name}."
      )
    }

  private def notTied(key: Attribute, join: Join) = {
    val on = join.condition.fold("none")(_.sql)
    refused(
      s"the condition ($on) has no equality for ${key.name}, which is in the versions' key",
      s"Write on= with <column of the stream> = ${key.name}; without the whole key a row would have several versions at a time."
    )
  }

  private def refused(problem: String, advice: String): AnalysisException =
    StreamJoinErrors.analysis(
      "STREAMJOIN_TEMPORAL",
      "join" -> kind,
      "problem" -> problem,
      "advice" -> (advice +: where.toSeq).mkString("\n")
    )
}

private[streamjoin] object AsOfJoins {

  /** Of the rows of a changelog of Spark's, and of an arrangement. */
  private val Changes = Set("_change_type", "_diff")
}
