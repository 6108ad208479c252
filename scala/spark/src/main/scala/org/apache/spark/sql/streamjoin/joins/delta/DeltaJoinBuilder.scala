package org.apache.spark.sql.streamjoin.joins.delta

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.CollapseProject
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
import org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.analysis.CommonValues
import org.apache.spark.sql.streamjoin.arrangement.source.ChangesTable
import org.apache.spark.sql.streamjoin.arrangement.storage.ChangeColumns
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.types.{DataType, LongType, MapType, VariantType}

/** Builds the delta join for a condition, or reports why it is impossible. */
private[streamjoin] object DeltaJoinBuilder {

  /**
   * @param select
   *   result columns, resolved
   * @param conditions
   *   join conditions, resolved
   * @param named
   *   name of each input in the query, with the changes of its arrangement
   * @param outer
   *   in an outer join of two inputs, the preserved ones
   * @param filters
   *   by input, resolved: filters on its rows
   * @throws org.apache.spark.sql.AnalysisException
   *   if there is no such delta join
   */
  def apply(
      select: Seq[NamedExpression],
      conditions: Seq[Expression],
      named: Seq[(String, StreamingRelationV2)],
      outer: Set[Int],
      filters: Seq[Seq[Expression]] = Nil
  ): StreamDeltaJoin = ofInputs(
    select.map(column => computedInPlace(column).asInstanceOf[NamedExpression]),
    conditions.map(computedInPlace),
    named,
    outer,
    filters.map(_.map(computedInPlace))
  )

  private def ofInputs(
      select: Seq[NamedExpression],
      conditions: Seq[Expression],
      named: Seq[(String, StreamingRelationV2)],
      outer: Set[Int],
      filters: Seq[Seq[Expression]]
  ): StreamDeltaJoin = {
    if (outer.nonEmpty && named.size > 2)
      throw StreamJoinErrors.analysis("STREAMJOIN_DELTA.OUTER_OF_SEVERAL")
    (conditions ++ filters.flatten ++ select).find(!isPlain(_)).foreach { expression =>
      throw StreamJoinErrors.analysis("STREAMJOIN_DELTA.NOT_PLAIN", "expression" -> expression.sql)
    }
    select.find(column => !canBeGrouped(column.dataType)).foreach { column =>
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_DELTA.COLUMN_TYPE",
        "column" -> column.name,
        "type" -> column.dataType.sql
      )
    }
    val inputs = named.map { case (name, relation) =>
      val table = relation.table.asInstanceOf[ChangesTable]
      DeltaInput(
        name,
        table.reference,
        table.options.source.get,
        relation.output
      )
    }
    checkHidden(inputs, conditions ++ filters.flatten ++ select)
    val times = inputs.flatMap(_.time)
    val hasTime = times.size == inputs.size && times.map(_.dataType).distinct.size == 1
    val time = Option.when(hasTime)(Greatest(times))
    val reserved = ChangeColumns.Diff +: time.map(_ => ChangeColumns.Time).toSeq
    select.map(_.name).find(name => reserved.exists(SQLConf.get.resolver(_, name))).foreach { name =>
      throw StreamJoinErrors.analysis("STREAMJOIN_DELTA.RESERVED_COLUMN", "column" -> name)
    }
    // An unmatched row has nulls for the columns of the other input.
    val padded = AttributeSet(outer.flatMap(input => inputs(1 - input).output))
    val columns = select.map { column =>
      val value = valueOf(column)
      val output = column.toAttribute.newInstance()
      (value, if (value.references.exists(padded.contains)) output.withNullability(true) else output)
    }
    val join = StreamDeltaJoin(
      inputs,
      outer,
      conditions,
      inputs.indices.map(filters.lift(_).getOrElse(Nil)),
      columns.map(_._1),
      time,
      columns.map(_._2) ++
        time.map(latest => AttributeReference(ChangeColumns.Time, latest.dataType, latest.nullable)()) :+
        AttributeReference(ChangeColumns.Diff, LongType, nullable = false)(),
      named.map(_._2)
    )
    // Fails if an index is missing, before anything starts.
    DeltaPath.all(join)
    join
  }

  /**
   * For `length(a.text) BETWEEN 1 AND 3` Spark would compute the middle once, in an extra column
   * below the operator (`RewriteWithExpression`). The rows of an index have no such column.
   */
  private def computedInPlace(expression: Expression): Expression = expression.transformUp {
    case common: With if !common.defs.forall(of => CollapseProject.isCheap(of.child)) =>
      CommonValues.inPlace(common)
  }

  /** A row must pass the same conditions when it is removed as when it was added. */
  private def isPlain(expression: Expression): Boolean =
    expression.deterministic && !expression.containsPattern(CURRENT_LIKE) && !expression.exists {
      case _: PlanExpression[_] | _: PythonUDF => true
      case _ => false
    }

  private def canBeGrouped(dataType: DataType): Boolean = !dataType.existsRecursively {
    case _: MapType | _: VariantType => true
    case _ => false
  }

  /** The result has its own number of copies and no version: it cannot use those of an input. */
  private def checkHidden(inputs: Seq[DeltaInput], expressions: Seq[Expression]): Unit = {
    val hidden = AttributeSet(inputs.flatMap(input => Seq(input.version, input.diff)))
    expressions.find(_.references.exists(hidden.contains)).foreach { expression =>
      throw StreamJoinErrors.analysis("STREAMJOIN_DELTA.INPUT_OPTIONS", "expression" -> expression.sql)
    }
  }

  private def valueOf(column: NamedExpression): Expression = column match {
    case Alias(value, _) => value
    case other => other
  }
}
