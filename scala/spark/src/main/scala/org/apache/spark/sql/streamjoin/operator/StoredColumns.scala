package org.apache.spark.sql.streamjoin.operator

import org.apache.spark.sql.catalyst.expressions.Attribute

private[streamjoin] object StoredColumns {

  /**
   * The columns of stored rows, given those of the rows that arrive. A filter that is added to a
   * running query applies to rows that arrive from then on. Spark declares the columns in which it
   * excludes nulls as never null (`FilterExec`), but an earlier row may have a null there, which
   * would be read as a zero.
   */
  def of(arriving: Seq[Attribute]): Seq[Attribute] = arriving.map(_.withNullability(true))
}
