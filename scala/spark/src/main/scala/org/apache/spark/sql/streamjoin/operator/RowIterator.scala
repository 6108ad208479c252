package org.apache.spark.sql.streamjoin.operator

import org.apache.spark.sql.catalyst.InternalRow

/** An iterator whose subclasses define only the next row; null ends it. */
abstract private[streamjoin] class RowIterator extends Iterator[InternalRow] {
  private var row: InternalRow = _
  private var ended = false

  protected def advance(): InternalRow

  override def hasNext: Boolean = {
    if (row == null && !ended) {
      row = advance()
      ended = row == null
    }
    row != null
  }

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException("no more rows")
    val current = row
    row = null
    current
  }
}
