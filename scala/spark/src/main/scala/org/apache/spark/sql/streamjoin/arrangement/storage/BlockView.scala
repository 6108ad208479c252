package org.apache.spark.sql.streamjoin.arrangement.storage

import org.apache.spark.sql.types.StructType

/**
 * What a partition of a reader takes from the blocks of a version, which may have been written with
 * another number of partitions or with other columns.
 *
 * @param written
 *   number of partitions with which the blocks were written
 * @param rows
 *   converts rows with other columns
 * @param of
 *   number of the index in the files whose blocks are taken
 * @param ofOther
 *   the key of the partition if the files do not have its index: the blocks are those of another
 *   one
 */
final private[streamjoin] class BlockView(
    part: IndexPartition,
    written: Int,
    rows: Option[StoredRows],
    of: Int,
    ofOther: Option[Seq[String]] = None
) {

  /** Whether all rows of each block that it can have rows of belong to the partition. */
  val isWhole: Boolean = ofOther.isEmpty && part.takesAll(written)

  /** Whether the stored bytes are taken. */
  def isPlain: Boolean = isWhole && rows.isEmpty

  /** Whether a block can have rows of the partition. */
  def canBeIn(block: BlockRef): Boolean =
    block.index == of && (ofOther.isDefined || part.canBeIn(block, written))

  /** Whether different rows of a block may be equal for the reader. */
  def mayMerge: Boolean = rows.exists(_.mayMerge)

  /** Identifies, among all views of a block, those that divide it into the same parts. */
  def division: BlockView.Division = BlockView.Division(ofOther, part.of, rows.map(_.wanted))

  def number: Int = part.number

  /** All rows of a block, with the columns of the reader. */
  def converted(block: Array[Byte]): Array[Byte] = rows.fold(block)(_.of(block))

  /** The rows of a block, with the columns of the reader, by partition of the reader. */
  def divided(block: Array[Byte]): IndexedSeq[Array[Byte]] = part.divide(converted(block))
}

private[streamjoin] object BlockView {
  final case class Division(byOther: Option[Seq[String]], partitions: Int, columns: Option[StructType])
}
