package org.apache.spark.sql.streamjoin

import java.util.UUID

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{Filter, Join, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.functions.{col, expr}
import org.apache.spark.sql.streamjoin.arrangement._
import org.apache.spark.sql.streamjoin.base.{PredicateParts, StreamJoinErrors}
import org.apache.spark.sql.streamjoin.operators.delta.{DeltaInput, DeltaJoin, DeltaPath}
import org.apache.spark.sql.types.LongType
import org.apache.spark.sql.{DataFrame, Row, SparkSession}

/** Joins of arrangements that keep nothing of their own. */
private[streamjoin] object DeltaJoins {

  /** All columns, or those of an input. */
  private val Star = """\s*(?:(\w+)\s*\.\s*)?\*\s*""".r

  private def quoted(name: String): String = s"`${name.replace("`", "``")}`"

  /**
   * The changes of a join.
   *
   * @param inputs
   *   what the condition calls an arrangement, and its name or path
   * @param on
   *   the condition, in SQL
   * @param isLeftOuter
   *   rows of the first of two inputs that have no match are in the result too
   * @param select
   *   the columns of the result, in SQL; all where there are none
   * @param options
   *   of the inputs, such as how many versions a batch has
   */
  def of(
      session: SparkSession,
      inputs: Seq[(String, String)],
      on: String,
      select: Seq[String],
      isLeftOuter: Boolean,
      options: Map[String, String]
  ): DataFrame = {
    if (isLeftOuter && inputs.size > 2)
      throw refused(
        "a left outer join of more than two inputs",
        "Join two, arrange the result by sj.arrange(..., diff=\"_diff\"), and join that with the next."
      )
    if (inputs.size < 2)
      throw refused("there are not two inputs", "Give the arrangements by the names that the condition uses.")
    val streams = inputs.map { case (alias, nameOrPath) =>
      session.readStream
        .format("streamjoin")
        .options(options)
        .option(ArrangementOptions.Source, UUID.randomUUID().toString)
        .load(nameOrPath)
        .alias(alias)
    }
    val rows = streams.reduce(_ crossJoin _).where(on)
    val columns = inputs.zip(streams).map { case ((alias, _), stream) =>
      // Behind them are the version and the number of copies, which are not columns of the rows.
      alias -> stream.columns.dropRight(2).toSeq.map(name => col(s"${quoted(alias)}.${quoted(name)}"))
    }
    val selected = rows.select((if (select.isEmpty) Seq("*") else select).flatMap {
      case Star(null) => columns.flatMap(_._2)
      case Star(alias) if columns.exists(_._1 == alias) => columns.filter(_._1 == alias).flatMap(_._2)
      case other => Seq(expr(other))
    }: _*)
    val classic = selected.asInstanceOf[ClassicDataset[Row]]
    val join = of(classic.queryExecution.analyzed, inputs.map(_._1), isLeftOuter)
    // Says what is missing before anything starts.
    DeltaPath.all(join)
    ClassicDataset.ofRows(classic.sparkSession, join)
  }

  private def of(analyzed: LogicalPlan, names: Seq[String], isLeftOuter: Boolean): DeltaJoin = {
    val (select, conditions) = analyzed match {
      case Project(list, Filter(condition, _: Join)) => (list, PredicateParts.conjuncts(condition))
      case other =>
        throw refused(
          s"it is not a plain condition and columns: ${other.nodeName}",
          "Aggregate or window its result instead."
        )
    }
    (conditions ++ select).foreach { expression =>
      if (
        !expression.deterministic || expression.exists(_.isInstanceOf[PlanExpression[_]]) || expression
          .exists(_.isInstanceOf[PythonUDF])
      )
        throw refused(
          s"${expression.sql} is not a plain expression",
          "A random value, a subquery or a Python function belongs into a query above the join."
        )
    }
    val leaves = analyzed.collectLeaves().collect { case relation: StreamingRelationV2 => relation }
    val inputs = names.zip(leaves).map { case (name, relation) =>
      val table = relation.table.asInstanceOf[ChangesTable]
      DeltaInput(
        name,
        ArrangementRef(table.options.root.toString, table.options.open().meta),
        table.options.source.get,
        relation.output
      )
    }
    checkHidden(inputs, conditions ++ select)
    val times = inputs.flatMap(_.time)
    val hasTime = times.size == inputs.size && times.map(_.dataType).distinct.size == 1
    val time = Option.when(hasTime)(Greatest(times))
    // A row without a match has nulls in place of the right input's columns.
    val padded = AttributeSet(if (isLeftOuter) inputs.last.output else Nil)
    val columns = select.map { named =>
      val value = valueOf(named)
      val output = named.toAttribute.newInstance()
      (value, if (value.references.exists(padded.contains)) output.withNullability(true) else output)
    }
    DeltaJoin(
      inputs,
      isLeftOuter,
      conditions,
      columns.map(_._1),
      time,
      columns.map(_._2) ++
        time.map(latest => AttributeReference(DeltaJoin.Time, latest.dataType, latest.nullable)()) :+
        AttributeReference(DeltaJoin.Diff, LongType, nullable = false)(),
      leaves
    )
  }

  /** The result has its own number of copies, and no version. */
  private def checkHidden(inputs: Seq[DeltaInput], expressions: Seq[Expression]): Unit = {
    val hidden = AttributeSet(inputs.flatMap(input => Seq(input.version, input.diff)))
    expressions.find(_.references.exists(hidden.contains)).foreach { expression =>
      throw refused(
        s"${expression.sql} asks for the version or the copies of an input",
        "Leave it out: the result has its own _diff."
      )
    }
  }

  private def valueOf(column: NamedExpression): Expression = column match {
    case Alias(value, _) => value
    case other => other
  }

  private def refused(problem: String, advice: String) =
    StreamJoinErrors.analysis("STREAMJOIN_DELTA", "problem" -> problem, "advice" -> advice)
}
