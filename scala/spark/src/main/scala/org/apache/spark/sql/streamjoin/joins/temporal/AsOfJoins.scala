package org.apache.spark.sql.streamjoin.joins.temporal

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{AsOfJoin, Filter, Join, JoinHint, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.plans.{Inner, LeftOuter}
import org.apache.spark.sql.catalyst.util.toPrettySQL
import org.apache.spark.sql.streamjoin.analysis.{NamedColumns, NormalForm}
import org.apache.spark.sql.streamjoin.base.{PredicateParts, StreamJoinErrors}
import org.apache.spark.sql.streamjoin.changes.KafkaPosition
import org.apache.spark.sql.streamjoin.time.DurationText
import org.apache.spark.sql.types.{DayTimeIntervalType, StringType}

import streamjoin.core.AsOf

/**
 * Converts a plain join to a temporal join (the version valid at a row's time) or an as-of join
 * (the closest row). Pure: analyzed plans in, analyzed plans out.
 *
 * @param call
 *   API call that the user wrote, for errors
 * @param kind
 *   `temporal` or `as-of`
 * @param where
 *   position in the query, as Spark shows it below an error
 * @param ordered
 *   whether a batch emits its rows in the order of the left time
 * @param keyInWords
 *   the key of the versions and the reason for it, for EXPLAIN
 */
final private[streamjoin] class AsOfJoins(
    call: String,
    kind: String,
    where: Option[String] = None,
    ordered: Boolean = true,
    keyInWords: Option[String] = None
) {
  private val inputs = new NamedColumns(call, inSql = where.isDefined)

  /**
   * Joins each left row with the version of its key that was valid at the row's time.
   *
   * @param joined
   *   the resolved join; its condition has an equality for each key column
   * @param history
   *   duration; see [[AsOf.history]]
   */
  def temporal(
      joined: LogicalPlan,
      names: TemporalColumns[String, String],
      history: Option[String]
  ): LogicalPlan = of(joined) { join =>
    def ofRight(name: String) = inputs.column(join.right, name)
    val columns = TemporalColumns[Attribute, Expression](
      inputs.column(join.left, names.asOf),
      names.key.map(inputs.columnOrField(join.right, _)),
      ofRight(names.time),
      names.op.map(ofRight),
      names.order.map(ofRight),
      names.unavailable
    )
    temporal(join, columns, history)
  }

  /**
   * Joins each left row with the version that was valid at its time, given resolved columns.
   *
   * @param versions
   *   the right input with its common tables
   */
  def temporalOf(
      joined: LogicalPlan,
      columns: TemporalColumns[Attribute, Expression],
      versions: LogicalPlan
  ): LogicalPlan = of(joined)(temporal(_, columns, None, Some(versions)))

  private def temporal(
      join: Join,
      columns: TemporalColumns[Attribute, Expression],
      history: Option[String],
      versions: Option[LogicalPlan] = None
  ): LogicalPlan = {
    checkAppendOnly(join.left)
    if (columns.key.isEmpty)
      throw rejected(
        "STREAMJOIN_TEMPORAL.NO_KEY",
        "write" -> inWords("key=[\"id\"]", "compare them in ON, or declare VERSIONS(TABLE(...), KEY(id))")
      )
    val conjuncts = conjunctsOf(join)
    val keys = columns.key.map { key =>
      conjuncts
        .flatMap(InputEquality.between(_, join))
        .find(_.isOfKey(key))
        .orElse(conjuncts.flatMap(InputEquality.withConstant).find(_.isOfKey(key)))
        .getOrElse(throw notTied(key, join))
    }
    if (keys.forall(key => ConstantEquality.isConstant(key.left))) throw notTied(columns.key.head, join)
    val used = keys.map(_.conjunct)
    columns.op.foreach(checkOperation)
    columns.order.foreach(checkOrder)
    val rule = AsOf(history = history.fold(0L)(length("history", _)))
    val (right, position) =
      KafkaPosition
        .added(versions.getOrElse(join.right), StreamTemporalJoin.Made)
        .getOrElse((join.right, Nil))
    StreamAsOfJoin(
      join.left,
      right,
      rule,
      inputs.timestamp(columns.asOf),
      inputs.timestamp(columns.time),
      keys.map(_.left),
      keys.map(_.right),
      keys.map(_.nullSafe),
      columns.op,
      AsOfJoins.ties(columns.order, position, columns.op, join.right.output),
      PredicateParts.all(conjuncts.filterNot(conjunct => used.exists(_ eq conjunct))),
      join.joinType == LeftOuter,
      ordered,
      AsOfTerms(
        kind,
        order = columns.order.map(order => NormalForm.lasting(order.name)),
        unavailable = columns.op.flatMap(_ => columns.unavailable)
      ),
      keyInWords,
      columns.op.flatMap(_ => columns.unavailable)
    )
  }

  /**
   * Joins each left row with the closest right row of the same key.
   *
   * @param condition
   *   resolved comparison of the two times: `l.t >= r.t`, `>`, `<=` or `<`
   */
  def asOf(joined: LogicalPlan, condition: Expression, tolerance: Option[String]): LogicalPlan =
    of(joined) { join =>
      val ComparedTimes(left, right, direction, exact) = compared(condition, join)
      closest(join, left, right, direction, exact, tolerance.map(length("tolerance", _)))
    }

  /**
   * Translates Spark's own node, which retains only how the times compare. If it excludes equal
   * times, it also excludes a distance equal to the tolerance.
   */
  def asOf(node: AsOfJoin): LogicalPlan =
    checked(
      Join(node.left, node.right, node.joinType, node.condition, JoinHint.NONE),
      join =>
        SparksAsOfJoin.condition(node).fold(ofConditions(node, join)) { condition =>
          val ComparedTimes(left, right, direction, exact) = compared(condition, join)
          closest(join, left, right, direction, exact, None)
        }
    )

  private def ofConditions(node: AsOfJoin, join: Join): LogicalPlan = {
    val conjuncts = PredicateParts.conjuncts(node.asOfCondition)
    val ComparedTimes(left, right, direction, exact) = node.orderExpression match {
      case If(isLater, _, _) =>
        compared(isLater, join)
          .copy(direction = AsOf.Nearest, isExact = !conjuncts.exists(_.isInstanceOf[Not]))
      case _ => compared(conjuncts.head, join)
    }
    val tolerance = node.toleranceAssertion.collect { case GreaterThanOrEqual(length, _) =>
      micros(length)
    }
    val within = if (exact) tolerance else tolerance.map(by => math.max(by - 1, 0))
    closest(join, left, right, direction, exact, within)
  }

  private def micros(tolerance: Expression): Long = tolerance.dataType match {
    case _: DayTimeIntervalType => tolerance.eval().asInstanceOf[Long]
    case _ =>
      throw DurationText.rejected(
        call,
        "tolerance",
        tolerance.sql,
        "it is not an interval of days, hours or seconds"
      )
  }

  /**
   * Joins each left row with the closest right row, given the names of the event-time columns.
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
      throw rejected("STREAMJOIN_TEMPORAL.DIRECTION", "direction" -> direction)
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
      throw rejected(
        "STREAMJOIN_TEMPORAL.NO_TOLERANCE",
        "column" -> leftTime.name,
        "write" -> inWords("tolerance=\"10 minutes\"", "after MATCH_CONDITION (...) WITHIN 10 MINUTES")
      )
    val conjuncts = conjunctsOf(join)
    val (equalities, besides) = conjuncts.partition(InputEquality.between(_, join).nonEmpty)
    // Right rows that fail these conditions are not candidates.
    val (ofRight, others) = besides.partition(InputEquality.isOf(join.right))
    others.filterNot(InputEquality.isOf(join.left)).headOption.foreach { mixed =>
      throw rejected(
        "STREAMJOIN_TEMPORAL.MIXED_CONDITION",
        "condition" -> mixed.sql,
        "write" -> inWords("joined.where(...)", "in WHERE")
      )
    }
    val keys = equalities.flatMap(InputEquality.between(_, join).headOption)
    // The conditions as written: the optimizer merges the filter with others, which may change
    // between runs.
    val form = new NormalForm(join.left.output, join.right.output)
    StreamAsOfJoin(
      join.left,
      PredicateParts.all(ofRight).fold(join.right)(Filter(_, join.right)),
      AsOf(direction, allowsExact, tolerance),
      leftTime,
      rightTime,
      keys.map(_.left),
      keys.map(_.right),
      keys.map(_.nullSafe),
      None,
      AsOfJoins.ties(None, Nil, None, join.right.output),
      PredicateParts.all(others),
      join.joinType == LeftOuter,
      ordered,
      AsOfTerms(kind, rightCondition = PredicateParts.all(ofRight).map(form(_)))
    )
  }

  /** Keeps the projection that Spark puts above a `USING` join. */
  private def of(joined: LogicalPlan)(made: Join => LogicalPlan): LogicalPlan = joined match {
    case names @ Project(_, join: Join) => names.withNewChildren(Seq(checked(join, made)))
    case join: Join => checked(join, made)
    case other => throw new IllegalArgumentException(s"no join: $other")
  }

  private def checked(join: Join, made: Join => LogicalPlan): LogicalPlan = {
    join.joinType match {
      case Inner | LeftOuter =>
      case other =>
        throw rejected(
          "STREAMJOIN_TEMPORAL.JOIN_TYPE",
          "type" -> other.sql,
          "write" -> inWords("how=\"inner\" or how=\"left\"", "JOIN or LEFT JOIN")
        )
    }
    Seq("left" -> join.left, "right" -> join.right).find(!_._2.isStreaming).foreach { case (side, _) =>
      throw rejected("STREAMJOIN_NOT_A_STREAM.AS_OF", "call" -> call, "side" -> side)
    }
    made(join)
  }

  // Conditions.

  private def conjunctsOf(join: Join): Seq[Expression] = {
    val all = join.condition.toSeq.flatMap(PredicateParts.conjuncts).filterNot(_ == Literal.TrueLiteral)
    all.find(conjunct => !runsInTask(conjunct)).foreach { conjunct =>
      throw rejected(
        "STREAMJOIN_TEMPORAL.NOT_REPEATABLE",
        "condition" -> conjunct.sql,
        "write" -> inWords("joined.where(...)", "in WHERE")
      )
    }
    all
  }

  private def runsInTask(conjunct: Expression): Boolean =
    conjunct.deterministic && !conjunct.exists {
      case _: PythonFuncExpression | _: SubqueryExpression => true
      case _ => false
    }

  private def compared(condition: Expression, join: Join): ComparedTimes =
    ComparedTimes.in(condition, join).getOrElse {
      throw rejected(
        "STREAMJOIN_TEMPORAL.TIMES",
        "condition" -> condition.sql,
        "write" -> inWords("match=\"l.t >= r.t\"", "MATCH_CONDITION (l.t >= r.t)")
      )
    }

  // Columns.

  def column(input: LogicalPlan, name: String): Attribute = inputs.column(input, name)

  private def checkOperation(column: Attribute): Unit =
    if (!column.dataType.isInstanceOf[StringType])
      throw inputs.wrong(column.name, "STREAMJOIN_COLUMN.OPERATION_TYPE", "type" -> column.dataType.sql)

  private def checkOrder(column: Attribute): Unit =
    if (!RowOrdering.isOrderable(column.dataType))
      throw inputs.wrong(column.name, "STREAMJOIN_COLUMN.ORDER_TYPE", "type" -> column.dataType.sql)

  private def length(argument: String, text: String): Long = {
    val micros = DurationText.length(call, argument, text)
    if (micros < 0) throw DurationText.rejected(call, argument, text, "it is negative")
    micros
  }

  // Errors.

  private def checkAppendOnly(stream: LogicalPlan): Unit =
    stream.output.find(_.name == AsOfJoins.ChangeType).foreach { column =>
      throw rejected("STREAMJOIN_TEMPORAL.TAKES_BACK", "column" -> column.name)
    }

  private def notTied(key: Expression, join: Join) = {
    val on = join.condition.fold("none")(_.sql)
    val name = key match {
      case column: Attribute => column.name
      case field => toPrettySQL(field)
    }
    rejected(
      "STREAMJOIN_TEMPORAL.KEY_NOT_TIED",
      "condition" -> on,
      "column" -> name,
      "write" -> inWords(s"on=\"... = $name\"", s"ON ... = $name")
    )
  }

  /** A SQL clause has a position in the query. */
  private def inWords(ofCall: String, ofSql: String): String = if (where.isEmpty) ofCall else ofSql

  private def rejected(condition: String, parameters: (String, String)*): AnalysisException =
    StreamJoinErrors.analysis(
      condition,
      parameters ++ Seq("join" -> kind, "where" -> where.getOrElse("")): _*
    )
}

private[streamjoin] object AsOfJoins {

  /** Column of changed rows in Spark's changelogs. */
  private val ChangeType = "_change_type"

  /**
   * The columns that order versions of one key and time. With an order or a position in a log,
   * columns that the query does not read are not retained as tie-breakers.
   */
  private[temporal] def ties(
      order: Option[Attribute],
      position: Seq[Attribute],
      operation: Option[Attribute],
      right: Seq[Attribute]
  ): Seq[Attribute] = {
    val values =
      if (order.isEmpty && position.isEmpty) right.filter(column => RowOrdering.isOrderable(column.dataType))
      else Nil
    order.toSeq ++ position ++ operation ++ values
  }
}
