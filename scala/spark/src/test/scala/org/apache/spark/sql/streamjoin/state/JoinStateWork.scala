package org.apache.spark.sql.streamjoin.state

import scala.collection.mutable
import scala.util.Random

import org.scalatest.Assertions

import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreProvider}
import org.apache.spark.sql.types._

import streamjoin.core.Side

/** What all batches of a seed have in common: keys, times, sizes, reaches, all random. */
final private[state] class JoinStateTraits(random: Random) {

  def one[T](choices: T*): T = choices(random.nextInt(choices.size))
  def oneIn(n: Int): Boolean = random.nextInt(n) == 0

  // Keys: from a single one for all rows to as many as there are rows.
  val keyTypes: Seq[DataType] = one(Seq(LongType), Seq(StringType), Seq(StringType, IntegerType))
  private val keyCount = one(1, 2, 5, 40)
  def key(): Seq[Any] = {
    val k = random.nextInt(keyCount)
    // Some texts do not fill their last word, some differ only at their end.
    def text = if (k % 3 == 0) "k" * k else s"a key of some length, the last number of which is $k"
    keyTypes.map {
      case LongType => k.toLong - 2
      case StringType => text
      case _ => k % 2
    }
  }

  // Times: in step with the batches, with ties; or anywhere, up to the ends of the range of longs.
  val isAnywhere: Boolean = oneIn(4)
  val scale: Long = one(1L, 1L, 1000000L, 3600L * 1000000L)
  private val ends =
    Seq(Long.MinValue, Long.MinValue + 1, -1L << 40, -1L, 0L, 1L, 1L << 40, Long.MaxValue - 1, Long.MaxValue)
  var now: Long = if (isAnywhere) 0L else one(0L, -50L * scale, 1700000000000000L)
  def anywhere(): Long = if (oneIn(3)) random.nextLong() else one(ends: _*)
  def time(): Long = if (isAnywhere) anywhere() else now + random.between(-20L, 21L) * scale

  val expiring: Map[Side, Seq[Int]] =
    Side.both.map(_ -> one(Seq(0), Seq(1), Seq(0, 1), Seq(1, 0))).toMap

  /** May be lower than the limit before, which then does not move. */
  def limit(before: Long): Long =
    if (oneIn(4)) before
    else if (isAnywhere) if (oneIn(6)) anywhere() else before
    else now - random.between(-10L, 60L) * scale

  private def constant(): Long =
    if (isAnywhere || oneIn(12)) one(ends: _*) else random.between(-10L, 40L) * scale
  private def bounds(): Seq[(Int, Long)] = Seq.fill(one(0, 1, 1, 1, 2))(random.nextInt(2) -> constant())
  private def range(): ProbeTimeRange = ProbeTimeRange(bounds(), bounds())
  val reaches: Map[Side, ProbeTimeRange] = Side.both.map { side =>
    side -> range().copy(others = expiring(side.other).tail.map(_ => range()))
  }.toMap

  val bucketWidths: Seq[Long] = Seq.fill(2)(one(1L, 7L * scale, 25L * scale, 1000L * scale, Long.MaxValue))

  /** On some sides, the first rows decide the width. */
  val byLifetimes: Seq[Option[LifetimeWidth]] = Side.both.map { _ =>
    Option.when(oneIn(3))(
      LifetimeWidth(one(0, 1), one(0L, 30L * scale), one(1L, 7L * scale), one(50L * scale, 1L << 50), 8)
    )
  }

  // Sizes: few rows; many rows, which crowd the slots of a segment's index; wide rows, which fill
  // segments.
  private val isWide = oneIn(10)
  private val most = if (isWide) 8 else one(6, 30, 30, 250)
  def rowCount(): Int = if (oneIn(5)) 0 else random.nextInt(most + 1)
  def wide(): Int = if (isWide) random.nextInt(900000) else if (oneIn(4)) random.nextInt(300) else 0

  /** Unlimited, or enough for no segment, some, or most. */
  def budget(): Long =
    if (isWide) one(1L, 3000000L, Long.MaxValue) else one(1L, 4000L, 12000L, 60000L, Long.MaxValue)

  // What happens to pairs: nothing; flags, as in outer joins; removals, as in semi joins; anything.
  private val (flags, removals) = one((false, false), (true, false), (true, true), (true, true))
  private val salt = random.nextInt()
  def fate(side: Side, own: Long, other: Long): Fate = {
    val bits = new Random(salt ^ (own * 31 + other) * 0x9e3779b97f4a7c15L ^ side.index).nextInt(256)
    Fate(
      flagOwn = flags && (bits & 3) == 0,
      flagOther = flags && (bits & 12) == 0,
      removeOwn = removals && (bits & 48) == 0,
      removeOther = removals && (bits & 192) == 0
    )
  }
}

/**
 * Random batches on the state of a task and on a model, compared wherever the two can be observed.
 */
final private[state] class JoinStateWork(seed: Int, provider: StateStoreProvider, test: JoinStateWork.Views)
    extends Assertions {
  private val random = new Random(seed)
  private val traits = new JoinStateTraits(random)
  import traits._

  private val rows: Map[Side, TestRows] =
    Side.both
      .map(side => side -> new TestRows(keyTypes, expiring(side), timesFirst = side == Side.Right))
      .toMap

  private var version = 0L
  private val committed = mutable.Map(0L -> JoinStateModel.empty(expiring))
  private var cached: Option[JoinIndex] = None

  /** The version that the cached index equals, until a batch works on it. */
  private var cachedIs: Option[Long] = None

  /** The version that the last batch on the cached index began with. */
  private var cachedBegan: Option[Long] = None
  private var model: JoinStateModel = _
  private var number = 0L

  def run(batches: Int): Unit = (1 to batches).foreach(batch => withClue(s"batch $batch: ")(run()))

  private def run(): Unit = {
    if (!isAnywhere) now += random.nextInt(15) * scale
    if (oneIn(4)) leaveOff()
    val store = provider.getStore(version, None)
    val state = open(store)
    Side.both.foreach { side =>
      meet(state, side, append(state, side))
      compare(state)
    }
    Side.both.foreach(expire(state, _))
    compare(state)
    if (oneIn(4)) {
      state.abort()
      if (oneIn(2)) cached = None
    } else commit(state)
    if (version > 1 && oneIn(10)) {
      // As after a failure between the commits of the state and of the batch: the batch runs once
      // more.
      version -= 1
      if (cachedIs.exists(_ > version)) cachedIs = None
    }
  }

  /** A run of the batch that stops half way, as when an action takes only the first rows. */
  private def leaveOff(): Unit = withClue("left off: ") {
    val store = provider.getStore(version, None)
    val state = open(store)
    Side.both.foreach { side =>
      append(state, side): Unit
      if (oneIn(2)) {
        val matches = state.matches(side, reaches(side))
        for (_ <- 1 to random.nextInt(40) if matches.next()) random.nextInt(5) match {
          case 0 => matches.flagOwn()
          case 1 => matches.flagOther()
          case 2 => matches.removeOwn()
          case 3 => matches.removeOther()
          case _ =>
        }
      }
    }
    Side.both.filter(_ => oneIn(2)).foreach { side =>
      val expired = state.expired(side, model.limits(side).map(limit).toArray, unmatched = oneIn(2))
      for (_ <- 1 to random.nextInt(10)) expired.next()
    }
    store.abort()
    cached = state.leaveOff()
    cachedIs = None
    cachedBegan = Some(version)
  }

  private def open(store: StateStore): JoinState = {
    val offered = if (oneIn(3)) None else cached
    val widths = if (version == 0) bucketWidths else Seq(3L, 5L) // from the header by then
    val layouts = Side.both.map(rows(_).layout)
    val state = new JoinState(store, layouts, widths, budget(), offered, byLifetimes = byLifetimes)
    model = committed(version)
    withClue(s"version $version, an index at hand: ${offered.isDefined}: ") {
      assert(state.reused == (offered.isDefined && cachedIs.contains(version)))
      assert(
        state.rewound == (offered.isDefined && !state.reused && version > 0 && cachedBegan.contains(version))
      )
      if (offered.isDefined) {
        cachedIs = None
        cachedBegan = None
      }
      compareRows(state, store)
      compare(state)
      assert(test.kinds(store).getOrElse(1, 0) == state.size.segments)
    }
    state
  }

  private def append(state: JoinState, side: Side): Seq[TestRow] = {
    val fresh = Seq.fill(rowCount()) {
      number += 1
      TestRow(number, key(), Seq(time(), time()), wide())
    }
    fresh.foreach { row =>
      state.append(side, rows(side)(row))
      model = model.append(side, row)
    }
    fresh
  }

  private def meet(state: JoinState, side: Side, fresh: Seq[TestRow]): Unit = withClue(s"$side probes: ") {
    val expected = model.pairs(side, fresh, reaches(side))
    val asked = model.inReachOfOthers(side, reaches(side))(_, _)
    val found = mutable.Set.empty[(Long, Long)]
    val matches = state.matches(side, reaches(side))
    while (matches.next()) {
      val pair @ (own, other) = (TestRows.number(matches.ownRow), TestRows.number(matches.otherRow))
      assert(expected(pair), "which is not a pair")
      assert(found.add(pair), s"$pair came before")
      assert(model.rows.contains(own), s"one row of $pair has left")
      assert(model.rows.contains(other), s"one row of $pair has left")
      assert(matches.ownRow == rows(side)(model.rows(own).row))
      assert(matches.otherRow == rows(side.other)(model.rows(other).row))
      // By their other times, segments are ruled out, but not every row.
      val what = if (asked(own, other)) fate(side, own, other) else Fate.nothing
      if (what.flagOwn) matches.flagOwn()
      if (what.flagOther) matches.flagOther()
      if (what.removeOwn) matches.removeOwn()
      if (what.removeOther) matches.removeOther()
      model = model.met(own, other, what)
    }
    val missed = (expected -- found).filter { case (own, other) =>
      model.rows.contains(own) && model.rows.contains(other) && asked(own, other)
    }
    assert(missed.isEmpty, "pairs of rows that did not leave are missing")
    assert(!matches.next(), "the iterator stays at its end")
  }

  private def expire(state: JoinState, side: Side): Unit = withClue(s"$side expires: ") {
    val below = model.limits(side).map(limit)
    val unmatched = oneIn(2)
    val (gone, after) = model.expire(side, below)
    val expired = state.expired(side, below.toArray, unmatched)
    val shown = mutable.ArrayBuffer.empty[Long]
    while (expired.next()) {
      shown += TestRows.number(expired.row)
      assert(expired.row == rows(side)(model.rows(shown.last).row))
    }
    val expected = if (unmatched) gone.filterNot(_.matched).map(_.row.number).toSeq else Nil
    assert(shown.toSeq.sorted == expected.sorted, s"below $below")
    assert(expired.evicted == gone.size, s"below $below")
    assert(!expired.next(), "the iterator stays at its end")
    model = after
  }

  private def compare(state: JoinState): Unit = {
    Side.both.foreach(side => assert(state.rows(side) == model.of(side).size, side))
    state.settle()
    Side.both.foreach { side =>
      assert(state.rows(side) == model.of(side).size, side)
      expiring(side).indices.foreach(at => assert(state.lowest(side, at) == model.lowest(side, at), side))
    }
  }

  private def compareRows(state: JoinState, store: StateStore): Unit = {
    val found = test.rows(state.committedIndex, store)
    assert(found.map { case (number, _) => number }.toSet == model.rows.keySet)
    assert(found.size == model.rows.size, "each row once")
    found.foreach { case (number, matched) => assert(matched == model.rows(number).matched, s"row $number") }
  }

  private def commit(state: JoinState): Unit = {
    state.commit()
    cachedBegan = Some(version)
    version += 1
    committed(version) = model
    cached = Some(state.committedIndex)
    cachedIs = Some(version)
    compare(state)
    val memory = state.committedIndex.memory
    val (size, own) = (state.size, state.size.segments * Segment.OwnBytes)
    assert(
      memory.used <= memory.budget || size.unloaded == size.segments && memory.used == own + memory.keys,
      "everything can be unloaded once it is written"
    )
    assert(state.size.index == memory.used)
  }
}

private[state] object JoinStateWork {

  /**
   * What is observed besides the state itself: the values of a store by kind, and the rows of an
   * index by number, with their flags.
   */
  final case class Views(
      kinds: StateStore => Map[Int, Int],
      rows: (JoinIndex, StateStore) => Seq[(Long, Boolean)]
  )
}
