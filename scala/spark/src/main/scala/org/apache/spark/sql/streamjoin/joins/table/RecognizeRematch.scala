package org.apache.spark.sql.streamjoin.joins.table

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.streamjoin.analysis._
import org.apache.spark.sql.streamjoin.base.Wording

/** Converts a [[TableRematch]] to a [[RematchJoin]], or rejects it with an error. */
private[streamjoin] object RecognizeRematch extends Recognizer {

  override def isMine(operator: LogicalPlan): Boolean = operator.isInstanceOf[TableRematch]

  override def recognize(operator: LogicalPlan, ordinal: Int, lineage: WatermarkLineage): Recognition =
    operator match {
      case written: TableRematch =>
        try Recognition.Found(recognized(written, ordinal, lineage))
        catch { case rejection: AnalysisException => Recognition.Rejected(RematchKind.nodeName, rejection) }
      case _ => Recognition.NotApplicable
    }

  private def mark(written: TableRematch): String = {
    val inSql = Wording.isSql(written)
    Wording.mark(if (inSql) "t" else "df", written.time.name, inSql)
  }

  private def recognized(written: TableRematch, ordinal: Int, lineage: WatermarkLineage): RematchJoin = {
    val join = TableJoin.of(written.join, isKept = true)
    val stream = join.stream
    val watermark = lineage.of(written.time, stream).getOrElse {
      throw TableJoin.rejected(
        join.table,
        "STREAMJOIN_TABLE.REMATCH_WATERMARK",
        "column" -> written.time.name,
        "mark" -> mark(written)
      )
    }
    UndefinedWatermark.of(watermark, stream).foreach { where =>
      throw where.rejected("The join with the table, which keeps rows without a match,")
    }
    val columns = join.rows.key(join.index)
    columns.zip(join.key).find { case (column, part) => !EquiKeys.areLasting(column, part.probe) }.foreach {
      case (_, part) =>
        throw TableJoin.rejected(join.table, "STREAMJOIN_TABLE.REMATCH_KEY", "key" -> part.probe.sql)
    }
    val others = lineage.columns(stream).filter(_._1.exprId != written.time.exprId).toIndexedSeq
    val known = RowConstraintsOf(stream)
    val form = new NormalForm(written.left.output, written.right.output)
    RematchJoin(
      written.left,
      written.right,
      written.joinType,
      written.condition,
      written.time +: others.map(_._1),
      RematchJoinSpec(
        ordinal,
        watermark +: others.map(_._2),
        Some(0L) +: others.map { case (column, _) => known.maxLagMicros(column.exprId, written.time.exprId) },
        written.rematch,
        join.rows.name,
        columns
          .zip(join.key)
          .map { case (column, part) => s"${column.name} = ${form(part.probe)}" }
          .mkString(", "),
        EquiKeys.zone(join.key.map(_.probe)),
        known.among((written.time +: others.map(_._1)).map(_.exprId))
      )
    )
  }
}
