package org.apache.spark.sql.streamjoin.evolve

import scala.util.matching.Regex

import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.base.StreamJoinConf
import org.apache.spark.sql.streamjoin.joins.temporal.{RandomMatch, TemporalCore}
import org.apache.spark.sql.streamjoin.{ChangedCore, Oracle, OracleTest, RandomStory, SparkTest, TraceQuery}

import streamjoin.core._

/**
 * Random changes of random queries, compared with the core batch for batch: output, late rows, rows
 * in state, batches without data. The cores of both queries run by the law: what the first one has
 * kept is handed to the second.
 */
class ChangeOracleSuite extends AnyFunSuite with OracleTest {

  private val seeds = SparkTest.seeds(default = 3)

  private val intervals = (1 to seeds).map(new ChangedInterval(_))
  private val matches = (1 to SparkTest.seeds(default = 3)).map(new ChangedMatch(_))

  testAll[ChangedStory](intervals ++ matches, _.toString)(story => new ChangeRun(story).run())

  /** One story, from its first batch to its last. */
  final private class ChangeRun(story: ChangedStory) {
    private val folder = newFolder("change")
    private val session = spark.newSession().asInstanceOf[SparkSession]
    session.conf.set("spark.streamjoin.watermarkBeforeFilter", "true")
    // No list of files becomes one: each batch has its own.
    session.conf.set("spark.sql.streaming.fileSink.log.compactInterval", "100")

    private val random = story.random
    private val (core, oracle) = (story.core, new Oracle(random, story.core))
    private val query = new TraceQuery(
      session,
      random.trace,
      folder,
      random.delay,
      keyed = false,
      random.origin,
      files = Option.when(story.usesFiles)(newFolder("sink")),
      keepsLabels = story.keepsLabels,
      firstColumns = story.before.columns
    )

    def run(): Assertion = {
      use(story.before, "reject")
      follow(random, oracle, query)(next)
    }

    /** The next run is of this query. */
    private def use(settings: Setting, evolve: String): Unit = {
      (settings.conf + (StreamJoinConf.Evolve.key -> evolve)).foreach { case (key, value) =>
        session.conf.set(key, value)
      }
      query.change(settings.trace, settings.delay, settings.columns)
    }

    private def next(rows: Seq[TraceRow], at: Int, restarts: Boolean): Unit =
      if (at == story.at && story.attempt == Abandoned) abandoned(rows)
      else if (at == story.at || at == story.at + 1 && story.attempt == Abandoned) changed(rows)
      else {
        if (restarts) {
          query.stop()
          query.start()
        }
        oracle.check(rows, Map.empty, query.rows(rows))
      }

    private def changed(rows: Seq[TraceRow]): Unit = {
      query.stop()
      use(story.after, "allow")
      core.change(story.after.trace)
      oracle.change(story.after.trace, story.after.delay, story.toString)
      if (story.attempt == Repeated && !story.usesFiles) {
        query.failing(rows)
        query.start()
        oracle.check(rows, Map.empty, query.more())
      } else {
        query.start()
        val seen = query.rows(rows)
        oracle.check(rows, Map.empty, seen)
        if (story.attempt == Repeated && seen.size == 1 && story.isFormat1) repeat()
      }
    }

    /**
     * The sink has the batch and skips it. With checkpoint format 2, Spark asserts that every task
     * has reported a state. Those of a skipped batch do not run, so it cannot be repeated.
     */
    private def repeat(): Unit = {
      query.stop()
      SparkTest.forgetCommit(folder)
      query.start()
      assert(query.more().isEmpty)
      oracle.skipped()
    }

    /** The changed query fails, and the old one continues as if nothing had happened. */
    private def abandoned(rows: Seq[TraceRow]): Unit = {
      query.stop()
      use(story.after, "allow")
      query.failing(rows)
      use(story.before, "reject")
      query.start()
      oracle.check(rows, Map.empty, query.more())
    }
  }
}

/** How the batch of a change runs. */
sealed private trait Attempt
private case object Plain extends Attempt
private case object Repeated extends Attempt
private case object Abandoned extends Attempt

/** A query, and the settings with which it runs. */
final private case class Setting(
    trace: Trace,
    delay: Long,
    conf: Map[String, String],
    columns: TraceQuery.Columns
)

/** A random query, its rows, and a random change of it. */
abstract private class ChangedStory(seed: Int) {
  import ChangedStory._

  protected val choice = new scala.util.Random(seed * 31L)
  protected def one[A](of: A*): A = of(choice.nextInt(of.size))

  def random: RandomStory
  def core: ChangedCore

  /** The names of the possible changes, each with the query that it leads to. */
  protected def queries: Seq[(String, Trace)]

  /** Whether all types of the join have to keep the same columns. */
  def keepsLabels: Boolean

  /** The batch of the change. */
  val at: Int = 2 + choice.nextInt(3)

  val usesFiles: Boolean = choice.nextInt(3) == 0
  val attempt: Attempt = if (usesFiles) one(Plain, Repeated) else one(Plain, Repeated, Abandoned)

  private val store = one(stores: _*)
  lazy val isFormat1: Boolean = after.conf(format) == "1"
  private val partitions = 1 + choice.nextInt(4)

  lazy val before: Setting =
    Setting(
      random.trace,
      random.delay,
      store._2 + (StreamJoinConf.Partitions.key -> partitions.toString),
      columns(narrow = choice.nextInt(3) == 0)
    )

  private def columns(narrow: Boolean) =
    TraceQuery.Columns(Side.both.filter(_ => choice.nextInt(3) == 0).toSet, narrow)

  private lazy val change: (String, Setting) = {
    val others = Seq(
      "partitions" -> before.copy(conf =
        before.conf + (StreamJoinConf.Partitions.key -> s"${1 + (partitions + choice.nextInt(3)) % 4}")
      ),
      "delay" -> before.copy(delay = choice.between(0, 6))
    ) ++ Option.when(store._1 != "RocksDB, format 2")(
      "state store" -> before.copy(conf = before.conf ++ stores.filterNot(_ == store).head._2)
    )
    val wider = columns(narrow = false)
    val changed = queries.map { case (name, trace) => name -> before.copy(trace = trace) } ++
      Option.when(wider != before.columns)(s"columns to $wider" -> before.copy(columns = wider))
    // A change of the query, with other settings or without, or the settings alone.
    val (name, after) = one(others: _*)
    if (changed.isEmpty || choice.nextInt(4) == 0) name -> after
    else {
      val (what, query) = one(changed: _*)
      if (choice.nextInt(3) > 0) what -> query
      else s"$what and $name" -> after.copy(trace = query.trace, columns = query.columns)
    }
  }

  lazy val after: Setting = change._2

  override def toString: String =
    s"$random: ${before.columns}, ${change._1} in batch $at, ${store._1}, ${if (usesFiles) "files"
      else "foreachBatch"}, $attempt"
}

private object ChangedStory {
  private val provider = SQLConf.STATE_STORE_PROVIDER_CLASS.key
  private val format = SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION.key
  private val rocksDb = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

  private val stores: Seq[(String, Map[String, String])] = Seq(
    "default store" -> Map(provider -> classOf[HDFSBackedStateStoreProvider].getName, format -> "1"),
    "RocksDB" -> Map(provider -> rocksDb, format -> "1"),
    "RocksDB, format 2" -> Map(provider -> rocksDb, format -> "2")
  )
}

/** Changes of an interval join. */
final private class ChangedInterval(seed: Int) extends ChangedStory(seed) {
  private val hasEquality = choice.nextInt(4) > 0
  private val name = JoinType.all(seed % JoinType.all.size).name
  private val only = Option.when(choice.nextInt(4) == 0)("left.v > 0")

  private case class Query(
      how: String,
      lowest: Long,
      highest: Long,
      pair: String,
      only: Option[String],
      equal: Seq[String]
  ) {
    def trace: Trace = {
      val lines = Seq(s"join: $how", "left: time", "right: time") ++
        equal.map(column => s"on: left.$column = right.$column") ++
        Seq(bound(">=", lowest), bound("<=", highest), s"on: $passed") ++ only.map("on: " + _)
      TraceParser.parse(s"seed $seed", lines.mkString("\n"))
    }

    /** Spark does not run a join whose condition contradicts its equality. */
    private def passed = if (equal.contains("v")) ChangedInterval.pairs.last else pair

    def isLeftKept: Boolean = JoinType.named(how).get.pads(Side.Left)

    private def bound(operator: String, seconds: Long) =
      s"on: right.time $operator left.time ${if (seconds < 0) "-" else "+"} ${math.abs(seconds)}"
  }

  private val first = {
    val lowest = choice.between(-6L, 4L)
    // By another equality, Spark makes a condition on one side a filter on both.
    val more = Option.when(only.isEmpty)("v")
    val equal = if (hasEquality) one(Seq("id"), Seq("id"), Seq("id") ++ more) else Nil
    Query(name, lowest, lowest + choice.between(0L, 10L), one(ChangedInterval.pairs: _*), only, equal)
  }

  override def keepsLabels: Boolean = true

  override protected def queries: Seq[(String, Trace)] = {
    val Query(_, lowest, highest, pair, _, equal) = first
    def more = choice.between(1L, 8L)
    val bounds = Seq(
      "wider" -> first.copy(lowest = lowest - more, highest = highest + more),
      "wider behind" -> first.copy(highest = highest + more),
      "moved" -> first.copy(lowest = lowest + 3, highest = highest + 3),
      "another condition" -> first.copy(pair = one(ChangedInterval.pairs.filter(_ != pair): _*))
    ) ++ Option.when(highest > lowest)("narrower" -> first.copy(highest = choice.between(lowest, highest))) ++
      only.map(_ => "no condition on one side" -> first.copy(only = None)) ++
      // Otherwise, Spark makes it a filter on the input.
      Option.when(only.isEmpty && first.isLeftKept && !equal.contains("v"))(
        "a condition on one side" -> first.copy(only = Some("left.v > 0"))
      )
    val equalities = Seq(Seq("v"), Seq("id", "v"), Seq("id"), Nil)
      .filter(_.forall(column => if (column == "v") only.isEmpty else hasEquality))
      .filter(_ != equal)
      .map(columns => columns.mkString("equality ", ", ", "") -> first.copy(equal = columns))
    // A condition on one side is a filter if the side is not preserved.
    val types =
      if (only.isDefined) Nil
      else ChangedInterval.types(name).map(how => s"to $how" -> first.copy(how = how))
    // A change of the type is as likely as one of the bounds.
    val both = bounds ++ equalities.take(2) ++ (if (types.isEmpty) Nil else Seq.fill(4)(one(types: _*)))
    both.map { case (what, query) => what -> query.trace }
  }

  override val random: RandomStory = new RandomStory(seed) {
    override val origin: Long = pick(0L, 1717200000L)
    override val trace: Trace = first.trace
    override def toString: String =
      s"seed ${this.seed}, $name${if (hasEquality) "" else ", without an equality"}"
  }

  override val core: ChangedCore = new ChangedIntervalCore(first.trace)
}

private object ChangedInterval {
  private val pairs = Seq("left.v < right.v", "left.v > right.v", "left.v <= right.v + 9")

  private def types(from: String): Seq[String] = JoinType.all.map(_.name).filter { to =>
    val toFiltered = JoinType.named(to).get.filtered.isDefined
    to != from && !(toFiltered && Set(JoinType.Inner.name, JoinType.RightOuter.name)(from))
  }
}

/** What the core has kept is handed from one query to the next. */
final private class ChangedIntervalCore(first: Trace) extends ChangedCore {
  private var trace = first
  private var core = CoreTrace.join(first)

  /** By watermark key: rows below it have left, whatever the bounds are now. */
  private var evictedBelow = Map.empty[Int, Long].withDefaultValue(Watermark.Undefined)

  /** Rows from before the change that cannot match any longer. */
  private var leaving: Seq[Output[TraceRow]] = Nil

  override def change(to: Trace): Unit = {
    val (was, is) = (trace.joinType, to.joinType)
    val kept = core.snapshot
    val rows = kept.rows.map { case (side, entries) =>
      val isFiltered = was.filtered.isDefined && side == Side.Left
      // Which rows have matched is known only where they are padded.
      val counts = is.pads(side) && !was.pads(side) && !isFiltered
      val leave = is.filtered.isDefined && side == Side.Left && !isFiltered
      side -> entries.filterNot(leave && _._2).map { case (row, matched) => (row, matched || counts) }
    }
    def canMatch(side: Side)(entry: (TraceRow, Boolean)) = CoreTrace.input(to, side).matchable(entry._1)
    leaving = for {
      (side, entries) <- rows.toSeq
      if is.pads(side)
      (row, matched) <- entries.filterNot(canMatch(side))
      if !matched
    } yield Output.Alone(side, row)
    trace = to
    core =
      CoreTrace.join(to, kept.copy(rows = rows.transform((side, entries) => entries.filter(canMatch(side)))))
  }

  private def limits(eviction: Map[Int, Long]): Map[Int, Long] = trace.keys.indices.map { key =>
    val now = core.bounds.evictionLimit(
      key,
      in => math.max(core.watermark(in), eviction.getOrElse(in, Watermark.Undefined))
    )
    key -> math.max(now, evictedBelow(key))
  }.toMap

  private def isBelow(row: TraceRow, limits: Map[Int, Long]): Boolean = trace.keys.indices.exists { key =>
    val column = trace.keys(key)
    column.side == row.side && row.values(column.name).exists(_ < limits(key))
  }

  override def onBatch(
      left: Seq[TraceRow],
      right: Seq[TraceRow],
      late: Map[Int, Long],
      eviction: Map[Int, Long]
  ): Seq[Output[TraceRow]] = {
    val out = leaving ++ core.onBatch(left, right, late.getOrElse(_, Watermark.Undefined), eviction)
    leaving = Nil
    evictedBelow = limits(eviction)
    val kept = core.snapshot
    def isLeaving(entry: (TraceRow, Boolean)) = isBelow(entry._1, evictedBelow)
    core =
      CoreTrace.join(trace, kept.copy(rows = kept.rows.transform((_, rows) => rows.filterNot(isLeaving))))
    out ++ (for {
      (side, rows) <- kept.rows.toSeq
      if trace.joinType.pads(side)
      (row, matched) <- rows.filter(isLeaving)
      if !matched
    } yield Output.Alone(side, row))
  }

  override def buffered(side: Side): Seq[TraceRow] = core.buffered(side)

  override def mayStay: Int = 0

  override def evicts(eviction: Map[Int, Long]): Boolean =
    Side.both.exists(core.buffered(_).exists(isBelow(_, limits(eviction))))
}

/** Changes of a temporal or an as-of join. */
final private class ChangedMatch(seed: Int) extends ChangedStory(seed) {
  override val random: RandomStory = new RandomMatch(seed.toLong)

  override def keepsLabels: Boolean = false

  override protected def queries: Seq[(String, Trace)] = {
    val outer = s"join: ${JoinType.LeftOuter.name}"
    def changed(name: String)(line: String => String) = {
      val lines = random.trace.lines.map(line)
      Option.when(lines != random.trace.lines)(
        name -> TraceParser.parse(s"$name, $random", lines.mkString("\n"))
      )
    }
    def another(name: String, from: Regex, prefix: String)(number: Int => Int) = changed(name) { line =>
      from.replaceAllIn(line, found => prefix + number(found.group(1).toInt))
    }
    def less(number: Int) = choice.nextInt(number + 1)
    def more(number: Int) = number + 1 + choice.nextInt(8)
    Seq(
      another("shorter tolerance", ChangedMatch.Within, "within ")(less),
      another("longer tolerance", ChangedMatch.Within, "within ")(more),
      another("shorter history", ChangedMatch.History, "history: ")(less),
      another("longer history", ChangedMatch.History, "history: ")(more),
      changed("to inner")(line => if (line == outer) s"join: ${JoinType.Inner.name}" else line)
    ).flatten
  }

  override val core: ChangedCore = new TemporalCore(random.trace)
}

private object ChangedMatch {
  private val Within = """within (\d+)""".r
  private val History = """history: (\d+)""".r
}
