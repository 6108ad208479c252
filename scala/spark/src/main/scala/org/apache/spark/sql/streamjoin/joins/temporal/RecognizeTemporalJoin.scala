package org.apache.spark.sql.streamjoin.joins.temporal

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions.{
  Alias,
  Attribute,
  AttributeSet,
  EqualNullSafe,
  EqualTo,
  Expression
}
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.streamjoin.analysis._
import org.apache.spark.sql.streamjoin.base.{StreamJoinErrors, Wording}
import org.apache.spark.sql.streamjoin.changes.Changelog
import org.apache.spark.sql.streamjoin.watermark.ColumnWatermark

/** Converts a [[StreamAsOfJoin]] to a [[StreamTemporalJoin]], or rejects it with an error. */
private[streamjoin] object RecognizeTemporalJoin extends Recognizer {

  override def isMine(operator: LogicalPlan): Boolean = operator match {
    case found: StreamAsOfJoin => found.children.forall(_.isStreaming)
    case _ => false
  }

  override def recognize(operator: LogicalPlan, ordinal: Int, lineage: WatermarkLineage): Recognition =
    operator match {
      case found: StreamAsOfJoin if isMine(found) =>
        (for {
          _ <- keysThatLast(found)
          left <- watermark(found.leftTime, found.left, found, lineage)
          right <- watermark(found.rightTime, found.right, found, lineage)
        } yield joined(found, ordinal, IndexedSeq(left, right), lineage))
          .fold(Recognition.Rejected(TemporalKind.nodeName, _), Recognition.Found(_))
      case _ => Recognition.NotApplicable
    }

  private def joined(
      found: StreamAsOfJoin,
      ordinal: Int,
      watermarks: IndexedSeq[ColumnWatermark],
      lineage: WatermarkLineage
  ): StreamTemporalJoin = {
    val pairs = found.leftKeys.lazyZip(found.rightKeys).lazyZip(found.nullSafe).toSeq
    val (leftKeys, rightKeys) = pairs.flatMap { case (l, r, nullSafe) =>
      EquiKeys.comparable(l, r) match {
        case (left, right) if nullSafe => EquiKeys.nullSafe(left, right)
        case both => Seq(both)
      }
    }.unzip
    val (leftKeyed, leftColumns) = keyed(found.left, leftKeys)
    val (rightKeyed, rightColumns) = keyed(found.right, rightKeys)
    val times = Seq(found.leftTime, found.rightTime)
    val others = found.children
      .flatMap(lineage.columns(_).map(_._1))
      .filterNot(column => times.exists(_.exprId == column.exprId))
    val form = new NormalForm(found.left.output, found.right.output)
    StreamTemporalJoin(
      leftKeyed,
      rightKeyed,
      leftColumns,
      rightColumns,
      found.operation,
      found.ties,
      found.condition,
      times ++ others,
      TemporalJoinSpec(
        ordinal,
        found.rule,
        watermarks,
        maxLagMicros(found, others),
        found.isLeftOuter,
        pairs.map { case (l, r, nullSafe) => keyText(l, r, nullSafe, form) },
        found.nullSafe,
        EquiKeys.zone(leftKeys ++ rightKeys),
        found.condition.fold("true")(form(_)),
        found.terms,
        found.keyInWords,
        RowConstraintsOf(found.left).among((times ++ others).map(_.exprId))
      ),
      found.ordered,
      found.unavailable,
      AttributeSet(found.rightKeys.flatMap(_.references).filter(Changelog.isPrimaryKey)).toSeq
    )
  }

  private def keyText(left: Expression, right: Expression, nullSafe: Boolean, form: NormalForm): String = {
    val (l, r) = EquiKeys.comparable(left, right)
    form(if (nullSafe) EqualNullSafe(l, r) else EqualTo(l, r))
  }

  private def maxLagMicros(found: StreamAsOfJoin, others: Seq[Attribute]): IndexedSeq[Option[Long]] = {
    val rule = found.rule
    val known = RowConstraintsOf(found.left)
    IndexedSeq(Some(0L), Option.when(rule.behind != Long.MaxValue)(rule.behind)) ++
      others.map(column => known.maxLagMicros(column.exprId, found.leftTime.exprId))
  }

  /**
   * Adds computed keys to the input as columns, because tasks, state and shuffles use only columns.
   */
  private def keyed(input: LogicalPlan, keys: Seq[Expression]): (LogicalPlan, Seq[Attribute]) = {
    val named = keys.map(NormalizeFloatingNumbers.normalize).map {
      case column: Attribute => Right(column)
      case key => Left(Alias(key, "key")(explicitMetadata = Some(StreamTemporalJoin.Made)))
    }
    val made = named.collect { case Left(alias) => alias }
    (
      if (made.isEmpty) input else Project(input.output ++ made, input),
      named.map(_.fold(_.toAttribute, identity))
    )
  }

  private def keysThatLast(found: StreamAsOfJoin): Either[AnalysisException, Unit] = {
    val pairs = found.leftKeys.zip(found.rightKeys)
    pairs
      .find { case (l, r) => !EquiKeys.areLasting(l, r) }
      .map { case (l, r) =>
        StreamJoinErrors.analysis(
          "STREAMJOIN_TEMPORAL.KEY_TYPE",
          "join" -> "temporal",
          "equality" -> EqualTo(l, r).sql
        )
      }
      .toLeft(())
  }

  private def watermark(
      time: Attribute,
      input: LogicalPlan,
      join: StreamAsOfJoin,
      lineage: WatermarkLineage
  ): Either[AnalysisException, ColumnWatermark] =
    lineage.of(time, input) match {
      case None =>
        val inSql = Wording.isSql(join)
        Left(
          StreamJoinErrors.analysis(
            "STREAMJOIN_TEMPORAL_TIME",
            "column" -> time.name,
            "mark" -> Wording.mark(if (inSql) "t" else "df", time.name, inSql)
          )
        )
      case Some(known) =>
        UndefinedWatermark.of(known, input).map(_.rejected("The temporal join")).toLeft(known)
    }
}
