package org.apache.spark.sql.streamjoin.state

import org.apache.spark.sql.catalyst.expressions.{BoundReference, Cast, UnsafeRow}
import org.apache.spark.sql.types.{DataType, StringType}
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.array.ByteArrayMethods
import org.apache.spark.unsafe.hash.Murmur3_x86_32

/**
 * The positions of keys and times in the rows of one input, which are Spark's `UnsafeRow`s: null
 * bits, eight bytes per field, then variable-length data. Keys and times are fields of the row and
 * never null.
 *
 * @param types
 *   types of all fields
 * @param keys
 *   ordinals of the fields that make up the key
 * @param times
 *   ordinals of the event-time fields
 * @param expiring
 *   positions in `times` of the times that expire a row; rows are bucketed by the first
 */
final private[streamjoin] class RowLayout(
    val types: Seq[DataType],
    val keys: Array[Int],
    val times: Array[Int],
    val expiring: Array[Int]
) {
  require(expiring.nonEmpty, "a time must expire the rows")

  val fields: Int = types.size
  private val firstField = UnsafeRow.calculateBitSetWidthInBytes(fields)
  private val timeOffset = times.map(firstField + 8 * _)
  private val keyOffset = keys.map(firstField + 8 * _)
  private val fixed = keys.map(key => UnsafeRow.isFixedLength(types(key)))
  // A fast path for the most common key.
  private val oneFixed = keys.length == 1 && fixed(0)
  private val first = if (keys.isEmpty) 0 else keyOffset(0)

  /** The values of the key, for display. */
  def keyText(row: UnsafeRow): String = keysAsText.map(_.eval(row)).mkString(", ")

  private lazy val keysAsText =
    keys.map(key => Cast(BoundReference(key, types(key), nullable = true), StringType, Some("UTC")))

  /** The time at a position, in microseconds. */
  def time(base: AnyRef, row: Long, position: Int): Long = Platform.getLong(base, row + timeOffset(position))

  def expiryTime(base: AnyRef, row: Long, at: Int): Long =
    Platform.getLong(base, row + timeOffset(expiring(at)))

  def hash(base: AnyRef, row: Long): Int =
    if (oneFixed) RowLayout.mix(RowLayout.Seed, Platform.getLong(base, row + first))
    else {
      var hash = RowLayout.Seed
      var i = 0
      while (i < keyOffset.length) {
        val word = Platform.getLong(base, row + keyOffset(i))
        hash =
          if (fixed(i)) RowLayout.mix(hash, word)
          else Murmur3_x86_32.hashUnsafeBytes(base, row + (word >>> 32), word.toInt, hash)
        i += 1
      }
      // Slots are chosen by the upper bits.
      RowLayout.mix(RowLayout.Seed, hash.toLong)
    }

  /**
   * Another hash of the key, to find keys that are not equal but should be: it is equal for texts
   * that differ only in blanks, in the case of ASCII letters, or in leading zeros of a number.
   */
  def plainHash(base: AnyRef, row: Long): Long = {
    var hash = RowLayout.Seed.toLong
    var i = 0
    while (i < keyOffset.length) {
      val word = Platform.getLong(base, row + keyOffset(i))
      hash =
        if (fixed(i)) RowLayout.add(hash, word)
        else RowLayout.addPlain(hash, base, row + (word >>> 32), word.toInt)
      i += 1
    }
    RowLayout.add(hash, 0)
  }

  /**
   * Whether two rows have equal keys, one of this layout and one of another with the same key
   * types.
   */
  def sameKey(base: AnyRef, row: Long, other: RowLayout, otherBase: AnyRef, otherRow: Long): Boolean =
    if (oneFixed) Platform.getLong(base, row + first) == Platform.getLong(otherBase, otherRow + other.first)
    else {
      var same = true
      var i = 0
      while (same && i < keyOffset.length) {
        val word = Platform.getLong(base, row + keyOffset(i))
        val otherWord = Platform.getLong(otherBase, otherRow + other.keyOffset(i))
        same =
          if (fixed(i)) word == otherWord
          else
            word.toInt == otherWord.toInt && ByteArrayMethods.arrayEquals(
              base,
              row + (word >>> 32),
              otherBase,
              otherRow + (otherWord >>> 32),
              word.toInt.toLong
            )
        i += 1
      }
      same
    }
}

private object RowLayout {
  private val Seed = 42

  private def add(hash: Long, word: Long): Long = {
    val product = (hash ^ word) * 0x9e3779b97f4a7c15L
    product ^ (product >>> 32)
  }

  private def addPlain(hash: Long, base: AnyRef, from: Long, length: Int): Long = {
    var all = hash
    var begun = false
    var i = 0
    while (i < length) {
      val byte = Platform.getByte(base, from + i)
      // The bytes of non-ASCII letters are negative.
      if ((byte > ' ' || byte < 0) && (begun || byte != '0')) {
        begun = true
        all = (all ^ (if (byte >= 'A' && byte <= 'Z') byte + 32 else byte.toInt).toLong) * 0x100000001b3L
      }
      i += 1
    }
    add(all, 1)
  }

  private def mix(hash: Int, word: Long): Int = {
    // Fibonacci hashing; both halves of the product count, as slots are chosen by the upper bits.
    val product = (word ^ hash) * 0x9e3779b97f4a7c15L
    ((product ^ (product >>> 29)) * 0xbf58476d1ce4e5b9L >>> 32).toInt
  }
}
