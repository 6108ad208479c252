package org.apache.spark.sql.streamjoin.arrangement.lookup

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.streamjoin.arrangement.index.{KeyIndex, LoadedBlock, ProbeResult}
import org.apache.spark.sql.streamjoin.arrangement.storage.RowKey
import org.apache.spark.sql.streamjoin.arrangement.{Item, MemoryBlock}

class ReadAheadSuite extends AnyFunSuite {
  private val partitions = 3
  private val key = new RowKey(Array(Item.Schema.head.dataType), Array(0))

  private def hasKey(row: InternalRow) = !row.isNullAt(0)

  /** Each key below 500 once, in the partition of its hash. */
  private def indexes(block: ((LoadedBlock, Int)) => (LoadedBlock, Int) = identity): Seq[KeyIndex] =
    (0 until partitions).map { number =>
      val own = (0 until 500).map(each => Item(Some(each), "", 0)).filter { item =>
        key.partition(Item.row(item), partitions) == number
      }
      val index = new KeyIndex(Item.Schema.length, key, 0)
      index.load(0, Iterator(block(MemoryBlock.of(own.map(_ -> 1)))))
      index
    }

  /** As from a shuffle: one object for all rows. */
  private def reused(items: Seq[Item]): Iterator[InternalRow] = {
    val row = new UnsafeRow(Item.Schema.length)
    items.iterator.map { item =>
      val bytes = Item.row(item).getBytes
      row.pointTo(bytes, bytes.length)
      row
    }
  }

  test("rows are handed on in their order and find what they find without it") {
    val all = indexes()
    val probe = new ProbeResult(Item.Schema.length, key)
    for (count <- Seq(0, 1, 63, 64, 65, 1000)) {
      val items = (0 until count).map { at =>
        Item(Option.when(at % 7 != 0)(at * 31 % 700), "n" * (at % 5), at.toLong)
      }
      val rows = new ReadAhead(reused(items), key, hasKey, partitions, all)
      val found = rows.map { row =>
        probe.clear()
        if (hasKey(row)) all(key.partition(row, partitions)).find(row, key.hash(row), 0, probe)
        Item.of(row.asInstanceOf[UnsafeRow]) -> probe.size
      }.toSeq
      assert(found == items.map(item => item -> item.key.count(_ < 500)), s"$count rows")
      assert(!rows.hasNext)
      assertThrows[NoSuchElementException](rows.next())
    }
  }

  test("a block that is not in memory is not read ahead") {
    var reads = 0
    val all = indexes { case (block, size) =>
      val unloaded = new LoadedBlock {
        override def bytes: Array[Byte] = {
          reads += 1
          block.bytes
        }
        override def bytesInMemory: Array[Byte] = null
      }
      unloaded -> size
    }
    reads = 0
    val items = (0 until 100).map(each => Item(Some(each), "", 0))
    assert(new ReadAhead(reused(items), key, hasKey, partitions, all).size == 100)
    assert(reads == 0)
  }
}
