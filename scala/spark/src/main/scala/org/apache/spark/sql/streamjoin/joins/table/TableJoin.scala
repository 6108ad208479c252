package org.apache.spark.sql.streamjoin.joins.table

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.planning.PhysicalOperation
import org.apache.spark.sql.catalyst.plans.logical.{Filter, Join, LogicalPlan}
import org.apache.spark.sql.catalyst.plans.{Inner, JoinType, LeftOuter, RightOuter}
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
import org.apache.spark.sql.streamjoin.analysis.CommonTables
import org.apache.spark.sql.streamjoin.arrangement.lookup.{ArrangedRows, KeyPart}
import org.apache.spark.sql.streamjoin.arrangement.source.{ChangesTable, LookedUpTable, TableOptions}
import org.apache.spark.sql.streamjoin.arrangement.storage.{ArrangementMeta, ChangeColumns}
import org.apache.spark.sql.streamjoin.base.{PredicateParts, StreamJoinErrors, Wording}
import org.apache.spark.sql.streamjoin.time.{DurationText, EventTime}
import org.apache.spark.sql.types.LongType

/**
 * A join of a stream with a table: each row of the stream is looked up in an arrangement. It keeps
 * no state, and later changes of the table do not change emitted rows.
 *
 * The law: each batch decides once which version of an arrangement its look-ups see. It is the
 * newest version when the batch is planned or, if the query also streams the arrangement, the
 * version at which those streams end; with `asOf = previous`, the version before. Before any row is
 * looked up, [[TableVersions]] leases the version and writes its number to the checkpoint. A retry
 * reads that number and finds the same rows, because a version never changes and the lease keeps
 * its files.
 *
 * @param index
 *   number of the index that is looked up
 * @param key
 *   the value with which each column of the index is looked up
 * @param conditions
 *   the remaining conditions on a row found by its key
 * @param fields
 *   columns of the table side, as expressions over the arrangement's columns
 * @param output
 *   columns of the join
 */
final private[streamjoin] case class TableJoin(
    stream: LogicalPlan,
    table: TableOptions,
    rows: ArrangedRows,
    index: Int,
    key: Seq[KeyPart],
    conditions: Seq[Expression],
    fields: Seq[NamedExpression],
    isOuter: Boolean,
    output: Seq[Attribute]
)

private[streamjoin] object TableJoin {

  def areIn(query: LogicalPlan): Boolean = query.exists {
    case join: Join => isMine(join)
    case _ => false
  } || inSubqueries(query).nonEmpty

  /** The tables that a query reads in subqueries of its expressions. */
  private def inSubqueries(query: LogicalPlan): Seq[(SubqueryExpression, TableOptions)] = {
    lazy val tables = CommonTables.of(query)
    for {
      operator <- query.collect { case operator => operator }
      subquery <- operator.expressions.flatMap(_.collect { case subquery: SubqueryExpression => subquery })
      table <- tables.inlined(subquery.plan).collectWithSubqueries { case LookedUpTable(table, _) => table }
    } yield subquery -> table
  }

  private def micros(length: String): Long = {
    val micros = DurationText.length("sj.table", TableOptions.Rematch, length)
    if (micros <= 0)
      throw DurationText.rejected("sj.table", TableOptions.Rematch, length, "it is not positive")
    micros
  }

  /**
   * The table on the side that is not a stream; the stream may already be joined with other tables.
   */
  private[table] def tableIn(join: LogicalPlan): Option[TableOptions] =
    join.children.find(!_.isStreaming).flatMap(_.collectFirst { case LookedUpTable(table, _) => table })

  /**
   * The join to run if unmatched rows must be buffered.
   *
   * @throws org.apache.spark.sql.AnalysisException
   *   if they cannot be buffered
   */
  def rematch(join: Join): Option[TableRematch] =
    for {
      StreamSide(stream, tableSide, _) <- StreamSide.of(join)
      table <- tableIn(join)
      length <- table.rematch
    } yield {
      if (!Seq(LeftOuter, RightOuter).contains(join.joinType))
        throw rejected(table, "STREAMJOIN_TABLE.REMATCH_JOIN_TYPE", "type" -> join.joinType.sql)
      if (join.condition.exists(SubqueryExpression.hasSubquery) || tableSide.exists(hasSubquery))
        throw rejected(table, "STREAMJOIN_TABLE.REMATCH_SUBQUERY")
      val inSql = Wording.isSql(join)
      val time = EventTime.of(stream.output) match {
        case Seq(one) => one
        case times =>
          val found =
            if (times.isEmpty) "no event time" else s"the event times ${times.map(_.name).mkString(", ")}"
          throw rejected(
            table,
            "STREAMJOIN_TABLE.REMATCH_EVENT_TIME",
            "found" -> found,
            "mark" -> Wording.mark(if (inSql) "t" else "df", "time", inSql)
          )
      }
      TableRematch(join.left, join.right, join.joinType, join.condition, time, micros(length))
    }

  private def hasSubquery(operator: LogicalPlan): Boolean =
    operator.expressions.exists(SubqueryExpression.hasSubquery)

  /** Whether one side is a stream that looks up an arrangement on the other side. */
  def isMine(join: Join): Boolean = StreamSide
    .of(join)
    .exists(_.other.exists {
      case LookedUpTable(_, _) => true
      case _ => false
    })

  /** Checks the query as written, because the optimizer converts outer joins to inner ones. */
  def checkWritten(query: LogicalPlan): Unit = {
    inSubqueries(query).headOption.foreach { case (subquery, table) =>
      val kind = subquery match {
        case _: ScalarSubquery => "a scalar subquery"
        case _: Exists => "EXISTS"
        case _: LateralSubquery => "a LATERAL subquery"
        case _ => "IN"
      }
      throw rejected(table, "STREAMJOIN_TABLE.IN_SUBQUERY", "subquery" -> kind)
    }
    checkSides(query)
  }

  private def checkSides(query: LogicalPlan): Unit = query.foreach {
    case join: Join if isMine(join) && join.joinType == Inner && !join.left.isStreaming =>
      tableIn(join).foreach { table =>
        throw rejected(table, "STREAMJOIN_TABLE.ON_THE_LEFT")
      }
    case _ =>
  }

  /**
   * Checks all joins before a query starts.
   *
   * @param optimized
   *   the optimized query
   * @throws org.apache.spark.sql.AnalysisException
   *   for the first join that cannot look up its table
   */
  def check(optimized: LogicalPlan): Unit = optimized.foreach {
    case join: Join if isMine(join) =>
      tableIn(join).filter(_.rematch.isDefined).foreach { table =>
        throw rejected(
          table,
          "STREAMJOIN_TABLE.REMATCH_CONDITION",
          "write" -> (if (Wording.isSql(join)) "stream LEFT JOIN table ON ..."
                      else "stream.join(table, ..., \"left\").")
        )
      }
      of(join): Unit
    case _ =>
  }

  /**
   * @param isKept
   *   whether rows are kept by the key, over restarts
   * @throws org.apache.spark.sql.AnalysisException
   *   if the table cannot be looked up
   */
  def of(join: Join, isKept: Boolean = false): TableJoin = {
    val StreamSide(stream, tableSide, isLeft) = StreamSide.of(join).get
    tableSide match {
      case PhysicalOperation(fields, filters, LookedUpTable(table, columns)) =>
        check(join.joinType, isLeft, table)
        checkOnlyComes(stream, table, Wording.isSql(join))
        joined(join, stream, fields, filters, table, columns, isKept)
      case other =>
        val table = other.collectFirst { case LookedUpTable(found, _) => found }.get
        throw rejected(table, "STREAMJOIN_TABLE.OPERATOR", "operator" -> other.nodeName)
    }
  }

  private def check(joinType: JoinType, streamIsLeft: Boolean, table: TableOptions): Unit =
    (joinType, streamIsLeft) match {
      // A filter above `table RIGHT JOIN stream` makes it an inner join.
      case (Inner | LeftOuter, true) | (Inner | RightOuter, false) =>
      case (LeftOuter, false) | (RightOuter, true) =>
        throw rejected(table, "STREAMJOIN_TABLE.ALL_ROWS")
      case (other, _) =>
        throw rejected(table, "STREAMJOIN_TABLE.JOIN_TYPE", "type" -> other.sql)
    }

  /**
   * A removed row would be looked up at a different version than when it was added. A filter on the
   * number of copies shows that the user is aware of this.
   */
  private def checkOnlyComes(stream: LogicalPlan, table: TableOptions, inSql: Boolean): Unit = {
    val changes = stream.collect { case relation: StreamingRelationV2 => relation.table }.collect {
      case of: ChangesTable => of
    }
    val canGo = changes.size > 1 || changes.exists(_.takesBack)
    val filters = stream.collect { case filter: Filter => filter.condition }
    if (canGo && !filters.exists(_.references.exists(_.name == ChangeColumns.Diff)))
      throw rejected(
        table,
        "STREAMJOIN_TABLE.STREAM_TAKES_BACK",
        "join" -> (if (inSql) "STREAM a JOIN STREAM b" else "sj.join(sj.table(...), sj.table(...))"),
        "filter" -> (if (inSql) "WHERE _diff > 0" else "where(\"_diff > 0\")")
      )
  }

  private def joined(
      join: Join,
      stream: LogicalPlan,
      fields: Seq[NamedExpression],
      filters: Seq[Expression],
      table: TableOptions,
      columns: Seq[AttributeReference],
      isKept: Boolean
  ): TableJoin = {
    val arrangement = table.reference
    val diff = AttributeReference("_diff", LongType, nullable = false)()
    val rows = ArrangedRows(table.options.root.getName, arrangement, columns, diff)
    val values = AttributeMap(fields.collect { case alias: Alias => alias.toAttribute -> alias.child })
    val inCondition = WrittenEqualities
      .of(join.condition.toSeq.flatMap(PredicateParts.conjuncts))
      .map(_.transform { case attribute: Attribute => values.getOrElse(attribute, attribute) })
    val conditions = inCondition ++ filters
    val known = stream.outputSet
    val usable = for {
      index <- arrangement.meta.keys.indices
      parts <- KeyPart.ofKey(rows.key(index), known, conditions)
    } yield index -> parts
    if (usable.isEmpty) {
      val equal = KeyPart.equated(columns, known, conditions)
      if (equal.isEmpty && conditions.nonEmpty)
        throw rejected(
          table,
          "STREAMJOIN_TABLE.NO_EQUALITY",
          "condition" -> conditions.map(_.sql).mkString(" AND ")
        )
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_TABLE_KEY",
        "arrangement" -> arrangement.root,
        "keys" -> arrangement.meta.keys.map(_.mkString("[", ", ", "]")).mkString(", "),
        "columns" -> equal.map(_.name).mkString("[", ", ", "]")
      )
    }
    val index = bestOf(usable.map(_._1), arrangement.meta, isKept)
    val key = usable.toMap.apply(index)
    TableJoin(
      stream,
      table,
      rows,
      index,
      key,
      conditions.filterNot(isDecided(_, rows.key(index), key)),
      fields,
      join.joinType != Inner,
      join.output
    )
  }

  /**
   * Index 0 is the primary key; otherwise the longest key finds the fewest rows. A key that the
   * table gets later must not replace the one by which rows are already kept.
   */
  private def bestOf(usable: Seq[Int], meta: ArrangementMeta, isKept: Boolean): Int = {
    val (first, added) = usable.partition(_ < meta.firstKeys)
    val candidates = if (!isKept) usable else if (first.nonEmpty) first else added.take(1)
    if (usable.contains(0)) 0 else candidates.maxBy(i => (meta.keys(i).size, -i))
  }

  /** Whether every row found by the key satisfies a condition. */
  private def isDecided(condition: Expression, columns: Seq[Attribute], key: Seq[KeyPart]): Boolean =
    condition match {
      case IsNotNull(column: Attribute) =>
        columns.zip(key).exists { case (of, part) => of.exprId == column.exprId && !part.nullSafe }
      case other => key.exists(_.decides.exists(_ eq other))
    }

  private[table] def rejected(table: TableOptions, condition: String, parameters: (String, String)*) =
    StreamJoinErrors.analysis(condition, parameters :+ ("arrangement" -> table.options.root.toString): _*)
}

/**
 * The sides of a join of a stream with an input that is not streaming.
 *
 * @param other
 *   the side with the table
 * @param isLeft
 *   whether the stream is the left side
 */
final private[streamjoin] case class StreamSide(stream: LogicalPlan, other: LogicalPlan, isLeft: Boolean)

private[streamjoin] object StreamSide {

  /** None if both sides are streams, or neither is. */
  def of(join: Join): Option[StreamSide] = (join.left.isStreaming, join.right.isStreaming) match {
    case (true, false) => Some(StreamSide(join.left, join.right, isLeft = true))
    case (false, true) => Some(StreamSide(join.right, join.left, isLeft = false))
    case _ => None
  }
}
