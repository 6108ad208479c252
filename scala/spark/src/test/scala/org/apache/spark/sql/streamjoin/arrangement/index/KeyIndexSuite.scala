package org.apache.spark.sql.streamjoin.arrangement.index

import java.util.concurrent.atomic.AtomicReference

import scala.util.Random

import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.streamjoin.SparkTest
import org.apache.spark.sql.streamjoin.arrangement.storage.{RowKey, Snapshot}
import org.apache.spark.sql.streamjoin.arrangement.{Item, MemoryBlock, Model}

/** An index of many versions, compared with a plain map for each version. */
class KeyIndexSuite extends AnyFunSuite {
  private val seeds = SparkTest.seeds(default = 60)
  private val keys = 5

  private val rowKey = new RowKey(Array(Item.Schema.head.dataType), Array(0))
  private val probes = ThreadLocal.withInitial(() => new ProbeResult(Item.Schema.length, rowKey))

  private def newIndex(oldest: Long = 0) =
    new KeyIndex(Item.Schema.length, rowKey, oldest)

  /** With chains of rows as soon as a removal walks. */
  private def newImpatientIndex(oldest: Long) =
    new KeyIndex(Item.Schema.length, rowKey, oldest, patience = 0)

  private def find(index: KeyIndex, key: Option[Int], version: Long): Seq[(Item, Int)] = {
    val probe = probes.get
    val row = Item.row(Item(key, "", 0))
    index.find(row, rowKey.hash(row), version, probe)
    (0 until probe.size).map(i => Item.of(probe.row(i)) -> probe.copies(i))
  }

  /**
   * Checks that all rows, and those of every key, are those of the model; a removed row is not
   * found as 1 - 1.
   */
  private def check(index: KeyIndex, version: Long, expected: Model.Collection, clue: String): Assertion = {
    val rows = index.rowsOf(version).map { case (row, copies) => Item.of(row) -> copies }.toSeq
    assert(Model.sum(rows.iterator) == expected, s"rows of $version, $clue")
    (None +: (0 until keys).map(Some(_))).foreach { key =>
      val found = find(index, key, version)
      assert(found.forall(_._1.key == key), clue)
      assert(
        Model.sum(found.iterator) == expected.filter(_._1.key == key),
        s"key $key of version $version, $clue"
      )
    }
    val signs = rows.groupBy(_._1).view.mapValues(_.map(_._2.sign).distinct)
    assert(signs.forall(_._2.size == 1), s"version $version, $clue")
  }

  /** An index and the models of its versions. */
  private def story(seed: Int, versions: Int = 25): (KeyIndex, Vector[Model.Collection]) = {
    val random = new Random(seed)
    val oldest = random.nextInt(3).toLong * 7
    val index = if (random.nextBoolean()) newIndex(oldest) else newImpatientIndex(oldest)
    var collections = Vector.empty[Model.Collection]
    (0 until versions).foreach { at =>
      val before = collections.lastOption.getOrElse(Map.empty[Item, Long])
      val most = if (random.nextInt(10) == 0) 150 else 8
      val changes = Model.changes(random, before, keys, most)
      val cut = random.nextInt(changes.size + 1)
      val blocks = Seq(changes.take(cut), changes.drop(cut)).filter(_.nonEmpty)
      index.load(oldest + at, blocks.iterator.map(MemoryBlock.of))
      collections :+= Model.plus(before, changes)
    }
    (index, collections)
  }

  test("every version has the rows of the model, by key and in total") {
    for (seed <- 0 until seeds) {
      val (index, collections) = story(seed)
      collections.indices.foreach { at =>
        check(index, index.oldest + at, collections(at), s"seed $seed")
      }
      assert(index.negativeRows == collections.last.count(_._2 < 0), s"seed $seed")
      assert(index.newest == index.oldest + collections.size - 1)
    }
    succeed
  }

  test("an index cut to a later version has the same rows, also after more changes") {
    for (seed <- 0 until seeds) {
      val (index, collections) = story(seed)
      val random = new Random(seed)
      val cut = random.nextInt(collections.size)
      val later = index.from(index.oldest + cut)
      assert(later.oldest == index.oldest + cut)
      assert(later.newest == index.newest)
      assert(later.entryCount <= index.entryCount)
      assert(later.negativeRows == index.negativeRows, s"seed $seed")
      val changes = Model.changes(random, collections.last, keys, 20)
      val next = index.newest + 1
      Seq(index, later).foreach(_.load(next, Iterator(MemoryBlock.of(changes))))
      val all = collections :+ Model.plus(collections.last, changes)
      (cut until all.size).foreach { at =>
        check(later, index.oldest + at, all(at), s"from $cut, seed $seed")
        check(index, index.oldest + at, all(at), s"seed $seed")
      }
      assert(later.negativeRows == index.negativeRows, s"seed $seed")
      // Compacted to the newest version, it has no dead rows.
      assert(later.from(later.newest).goneShare(later.newest) == 0, s"seed $seed")
    }
    succeed
  }

  test("the rows before a time are those of the model, while versions come and the index is cut") {
    val timeOf: RowTime = row => if (row.isNullAt(0)) RowTime.None else row.getLong(2)
    for (seed <- 0 until seeds) {
      val random = new Random(seed)
      var index = newIndex()
      var collections = Vector.empty[Model.Collection]
      (0 until 25).foreach { at =>
        val before = collections.lastOption.getOrElse(Map.empty[Item, Long])
        val others = Model.changes(random, before, keys, 8).filter(_._2 < 0)
        val added = Seq.fill(random.nextInt(12))(Item.random(random, keys).copy(value = random.nextLong(50)))
        val changes = others ++ added.map(_ -> 1)
        index.load(at.toLong, Iterator(MemoryBlock.of(changes)))
        collections :+= Model.plus(before, changes)
        if (random.nextInt(8) == 0)
          index = index.from(index.oldest + random.nextInt(at + 1 - index.oldest.toInt))
        // Mostly the newest version, as a maintaining query asks, and sometimes one before.
        val asked = math.max(index.oldest, at - (if (random.nextInt(4) == 0) random.nextInt(3) else 0)).toInt
        val limit = random.nextLong(55)
        val found = index.rowsBefore(limit, timeOf, asked.toLong).map { case (row, copies) =>
          Item.of(row) -> copies
        }
        val expected = collections(asked).filter { case (item, _) =>
          item.key.isDefined && item.value < limit
        }
        assert(Model.sum(found) == expected, s"version $asked before $limit, seed $seed")
      }
    }
    succeed
  }

  test("a reader of an old version sees the same rows while newer ones are loaded and compacted") {
    for (seed <- 0 until math.max(3, seeds / 20)) {
      val random = new Random(seed)
      val index = newIndex()
      var last: Model.Collection = Model.plus(Map.empty, Seq.fill(50)(Item.random(random, keys) -> 1))
      index.load(0, Iterator(MemoryBlock.of(last.toSeq.map { case (item, copies) => item -> copies.toInt })))
      val first = last
      val failure = new AtomicReference[Throwable]
      @volatile var over = false
      val readers = Seq.fill(2)(
        new Thread(() =>
          try while (!over) check(index, 0, first, s"seed $seed"): Unit
          catch { case error: Throwable => failure.set(error) }
        )
      )
      readers.foreach(_.start())
      try
        for (version <- 1 to 150) {
          val changes = Model.changes(random, last, keys, 60)
          index.load(version, Iterator(MemoryBlock.of(changes)))
          last = Model.plus(last, changes)
          if (version % 30 == 0) check(index.from(version), version, last, s"seed $seed")
        }
      finally {
        over = true
        readers.foreach(_.join())
      }
      Option(failure.get).foreach(error => fail(s"seed $seed", error))
      check(index, 0, first, s"seed $seed")
      check(index, 150, last, s"seed $seed")
    }
    succeed
  }

  test("rows of a hot key, or without a key, are removed without a walk along all of them") {
    val (rows, removed) = (20000, 2000)
    for (key <- Seq(Some(1), None)) {
      val index = newIndex()
      def item(i: Int) = Item(key, s"row $i", i.toLong)
      index.load(0, Iterator(MemoryBlock.of((0 until rows).map(i => item(i) -> 1))))
      assert(index.extraChainSteps == 0)
      (1 to 3).foreach { version =>
        // The oldest are at the end of the chain.
        val gone = ((version - 1) * removed until version * removed).map(i => item(i) -> -1)
        index.load(version, Iterator(MemoryBlock.of(gone)))
      }
      assert(index.rowsOf(3).size == rows - 3 * removed)
      assert(find(index, key, 3).size == rows - 3 * removed)
      assert(find(index, key, 0).size == rows)
      assert(index.extraChainSteps < 20L * rows, "steps grow with the square")
      val before = index.extraChainSteps
      index.load(4, Iterator(MemoryBlock.of((6000 until 8000).map(i => item(i) -> -1))))
      assert(index.extraChainSteps == before, "the chains of rows are short")
    }
  }

  test("once look-ups have passed many rows that nobody needs, a copy without them is due") {
    val index = newIndex()
    def item(version: Int) = Item(Some(1), s"row $version", version.toLong)
    val others = (2 to 4).map(key => Item(Some(key), "", 0) -> 1)
    index.load(0, Iterator(MemoryBlock.of(others :+ (item(0) -> 1))))
    (1 to 100).foreach { at =>
      index.load(at.toLong, Iterator(MemoryBlock.of(Seq(item(at - 1) -> -1, item(at) -> 1))))
    }
    def lookUp(index: KeyIndex) = (1 to 100).foreach { _ =>
      assert(find(index, Some(1), 100) == Seq(item(100) -> 1))
      assert(find(index, Some(2), 100).size == 1)
    }
    lookUp(index)
    assert(!index.isWorn, "readers need all versions")
    index.needOnlyFrom(98)
    lookUp(index)
    assert(index.isWorn)
    assert(find(index, Some(1), 5) == Seq(item(5) -> 1), "until then, they stay")
    val copy = index.from(98)
    assert(copy.entryCount == 6)
    copy.needOnlyFrom(98)
    lookUp(copy)
    assert(!copy.isWorn)
  }

  test("of the rows of a version, only those that are wanted are read") {
    val items = (0 until 1000).map(key => Item(Some(key), "", 0))
    val (block, size) = MemoryBlock.of(items.map(_ -> 1))
    var reads = 0
    val counted = new LoadedBlock {
      override def bytes: Array[Byte] = {
        reads += 1
        block.bytes
      }
      override def bytesInMemory: Array[Byte] = block.bytes
    }
    val index = newIndex()
    index.load(0, Iterator(counted -> size))
    def isWanted(hash: Int) = Snapshot.slice(hash, 50) == 7
    reads = 0
    val found = index.rowsOf(0, isWanted).map { case (row, _) => Item.of(row) }.toSeq
    assert(found == items.filter(item => isWanted(rowKey.hash(Item.row(item)))))
    assert(reads == found.size)
    assert(found.size < 100)
  }

  test("copies can be added one by one and removed at once, and the other way round") {
    val item = Item(Some(1), "x", 1)
    val index = newIndex()
    def load(version: Long, changes: Int*) =
      index.load(version, Iterator(MemoryBlock.of(changes.map(item -> _))))
    load(0, 1, 1, 1)
    load(1, -3)
    load(2, 5)
    load(3, -1, -1)
    load(4, -7)
    load(5, 1, 3)
    load(6, 1, -1)
    val copies = (0 to 6).map(version => find(index, Some(1), version).map(_._2).sum)
    assert(copies == Seq(3, 0, 5, 3, -4, 0, 0))
    assert(find(index, Some(1), 1).isEmpty)
    assert(find(index, Some(1), 6).isEmpty)
    assert(index.negativeRows == 0)
  }

  test("keys with the same hash are told apart") {
    // All in one chain: the hash table has 128 slots.
    val items = Iterator
      .from(0)
      .map(key => Item(Some(key), "", 0))
      .filter(item => (rowKey.hash(Item.row(item)) & 127) == 5)
      .take(30)
      .toSeq
    val index = newIndex()
    index.load(0, Iterator(MemoryBlock.of(items.map(_ -> 1))))
    index.load(1, Iterator(MemoryBlock.of(items.take(10).map(_ -> -1))))
    items.zipWithIndex.foreach { case (item, at) =>
      assert(find(index, item.key, 0) == Seq(item -> 1))
      assert(find(index, item.key, 1) == (if (at < 10) Nil else Seq(item -> 1)))
    }
  }

  test("a read of a version that the index does not cover fails") {
    val index = newIndex(oldest = 3)
    assert(!index.covers(3, 3))
    assert(index.newest == 2)
    index.load(3, Iterator.empty)
    index.load(5, Iterator(MemoryBlock.of(Seq(Item(None, "", 0) -> 1))))
    assert(index.covers(3, 5))
    assert(!index.covers(2, 5))
    assert(!index.covers(3, 6))
    assert(index.rowsOf(4).isEmpty)
    assert(index.rowsOf(5).size == 1)
    intercept[AssertionError](index.rowsOf(2))
    intercept[AssertionError](find(index, None, 6))
    intercept[AssertionError](index.load(5, Iterator.empty))
    assert(index.rowsOf(5).size == 1)
  }
}
