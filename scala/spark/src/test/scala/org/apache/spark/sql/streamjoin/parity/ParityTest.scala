package org.apache.spark.sql.streamjoin.parity

import java.nio.file.{Files, Path}

import scala.collection.mutable
import scala.util.{Failure, Success, Try}

import org.apache.hadoop.mapred.JobConf
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.{Assertion, BeforeAndAfterAll}

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinExec
import org.apache.spark.sql.execution.streaming.runtime.{MicroBatchExecution, StreamingQueryWrapper}
import org.apache.spark.sql.streaming.{DataStreamWriter, StreamingQuery, Trigger}
import org.apache.spark.sql.streamjoin.files.AtomicCheckpointFileManager
import org.apache.spark.sql.streamjoin.joins.interval.IntervalJoinExec
import org.apache.spark.sql.streamjoin.{SparkTest, StreamJoinExtensions}
import org.apache.spark.sql.{DataFrame, Row}

/** A query to run with the extension off and on, as data. */
final private[streamjoin] case class ParityCase(
    name: String,
    query: ParityInputs => DataFrame,
    joins: ParityCase.Joins = ParityCase.Ours,
    byBatch: Boolean = true,
    mayBeEmpty: Boolean = false,
    mode: String = "append",
    trigger: Option[Trigger] = None,
    write: ParityCase.Write = ParityCase.collect,
    runs: Seq[ParityCase.Run] = Seq(ParityCase.Run())
) {

  /** Compares the rows of the whole run, whatever batch emits them. */
  def whole: ParityCase = copy(byBatch = false)
  def update: ParityCase = copy(mode = "update")
  def rejected(condition: String): ParityCase = copy(joins = ParityCase.Rejected(condition))
  def sparks: ParityCase = copy(joins = ParityCase.Sparks)

  /** Rejected with an error; with `unbounded=spark`, some of its joins are ours. */
  def beside(condition: String): ParityCase = copy(joins = ParityCase.Rejected(condition, someAreOurs = true))

  /** Ours, or rejected by one of our error classes. */
  def either: ParityCase = copy(joins = ParityCase.OursOrRejected)
  def any: ParityCase = copy(joins = ParityCase.AnyJoin)
  def none: ParityCase = copy(joins = ParityCase.NoJoin)
  def set(settings: (String, String)*): ParityCase =
    copy(runs = runs.map(run => run.copy(settings = run.settings ++ settings)))

  /** Stopped after the first file and restarted with other settings for the rest. */
  def restarted(before: (String, String)*)(after: (String, String)*): ParityCase =
    copy(runs = Seq(ParityCase.Run(1, before), ParityCase.Run(settings = after)))
}

private[streamjoin] object ParityCase {

  /** Whose stream-stream joins a query runs when the extension is on. */
  sealed trait Joins
  case object Ours extends Joins
  case object Sparks extends Joins

  /** Some are ours, some are Spark's. */
  case object Mixed extends Joins

  /** No join runs, not even in plain Spark. */
  case object NoJoin extends Joins

  /** Rejected with this error class; with `spark.streamjoin.unbounded=spark` they are Spark's. */
  final case class Rejected(condition: String, someAreOurs: Boolean = false) extends Joins
  case object OursOrRejected extends Joins

  /** The optimizer decides whether there is a join. */
  case object AnyJoin extends Joins

  /** The error classes of rejected joins that the reference lists. */
  val Reference: Set[String] =
    Set("UNBOUNDED", "BOUND_IN_OR", "BOUND_NOT_CONSTANT", "NO_WATERMARK").map("STREAMJOIN_" + _)

  /** Runs until this many files have been read. */
  final case class Run(
      files: Int = ParityInputs.FileCount,
      settings: Seq[(String, String)] = Nil,
      fails: Boolean = false
  )

  /** A sink, and how to read what it has received. */
  trait Write {
    def start(writer: DataStreamWriter[Row], sink: Sink): StreamingQuery
    def finish(sink: Sink): Unit = ()
  }

  /** What a sink has received; `folder` is for sinks that write files. */
  final class Sink(val session: SparkSession, val folder: Path) {
    private val batches = mutable.LinkedHashMap.empty[Long, Seq[String]]

    def add(batch: Long, rows: Seq[Row]): Unit = synchronized {
      batches(batch) = batches.getOrElse(batch, Nil) ++ rows.map(text)
    }

    /** The rows of each non-empty batch, in the order of the batches. */
    def received: Seq[Seq[String]] =
      synchronized(batches.toSeq.sortBy(_._1).map(_._2.sorted).filter(_.nonEmpty))
  }

  /** The rows of each non-empty batch, and the plan of the last batch. */
  final case class Outcome(rows: Seq[Seq[String]], plan: SparkPlan) {
    private def count(isJoin: SparkPlan => Boolean) = plan.collect { case join if isJoin(join) => join }.size
    def ours: Int = count(_.isInstanceOf[IntervalJoinExec])
    def sparks: Int = count(_.isInstanceOf[StreamingSymmetricHashJoinExec])
  }

  val collect: Write = (writer, sink) =>
    writer.foreachBatch((batch: DataFrame, id: Long) => sink.add(id, batch.collect().toSeq)).start()

  def text(row: Row): String = text(row: Any)

  private def text(value: Any): String = value match {
    case null => "-"
    case row: Row => row.toSeq.map(text(_: Any)).mkString("(", " ", ")")
    case some: scala.collection.Seq[_] => some.map(text(_: Any)).mkString("[", " ", "]")
    case some: scala.collection.Map[_, _] =>
      some.map(each => text(each._1) + "=" + text(each._2)).toSeq.sorted.mkString("{", " ", "}")
    case some: Array[_] => some.mkString("<", " ", ">")
    case other => other.toString
  }

  def sql(name: String)(statements: String*): ParityCase = ParityCase(name, _.sql(statements: _*))

  /** One case for each name and its statement. */
  def sqls(cases: (String, String)*): Seq[ParityCase] =
    cases.map { case (name, statement) => sql(name)(statement) }

  def frame(name: String)(query: ParityInputs => DataFrame): ParityCase = ParityCase(name, query)
}

/**
 * Runs a query with the extension off and on: in two sessions of one context, of which only the
 * second has the extension.
 */
private[streamjoin] trait ParityTest extends SparkTest with BeforeAndAfterAll { this: AnyFunSuite =>
  import ParityCase._

  override protected def extensions: String = ""

  protected lazy val plain: SparkSession = session(SparkSession.builder())

  protected lazy val extended: SparkSession = session(
    SparkSession.builder().withExtensions(new StreamJoinExtensions())
  )

  /** A session on the suite's context that shares nothing else with other sessions. */
  private def session(builder: SparkSession.Builder): SparkSession = {
    assert(spark.sparkContext ne null)
    SparkSession.clearActiveSession()
    SparkSession.clearDefaultSession()
    try
      builder
        // For both sessions: Spark's own file manager would start processes for each file.
        .config(AtomicCheckpointFileManager.Setting, classOf[AtomicCheckpointFileManager].getName)
        .getOrCreate()
    finally {
      SparkSession.setDefaultSession(spark)
      SparkSession.clearActiveSession()
    }
  }

  protected lazy val files: Path = {
    val folder = Path.of(newFolder("inputs"))
    ParityInputs.write(folder)
    folder
  }

  override protected def beforeAll(): Unit = {
    super.beforeAll()
    // Spark's join serializes this with each copy of its plan and compresses every default by
    // itself: half the time of a batch.
    val hadoop = plain.sparkContext.hadoopConfiguration
    // The first `JobConf` makes all configurations reload their defaults.
    new JobConf(hadoop)
    hadoop.clear()
    assert(Files.isDirectory(files))
    assert(extended.sparkContext eq plain.sparkContext)
  }

  protected def compare(each: ParityCase): Assertion = {
    val without = Try(run(plain, each)) match {
      case Success(outcome) => outcome
      case Failure(error) => fail(s"invalid case, plain Spark does not run it: ${first(error)}", error)
    }
    assert(without.ours == 0)
    if (each.joins != AnyJoin)
      assert((without.sparks == 0) == (each.joins == NoJoin), "invalid case: the joins of plain Spark")
    assert(without.rows.nonEmpty || each.mayBeEmpty, "invalid case: no rows")
    val handedOver = each.set("spark.streamjoin.unbounded" -> "spark")
    val withIt = each.joins match {
      case Rejected(condition, _) =>
        val rejected = Try(run(extended, each))
        assert(rejected.isFailure, s"$condition was expected, but the query ran")
        assert(SparkTest.errorClass(rejected.failed.get).contains(condition), first(rejected.failed.get))
        run(extended, handedOver)
      case OursOrRejected =>
        Try(run(extended, each)).recover {
          case error if SparkTest.errorClass(error).exists(Reference.contains) => run(extended, handedOver)
        }.get
      case _ => run(extended, each)
    }
    val (ours, sparks) = (withIt.ours > 0, withIt.sparks > 0)
    val asExpected = each.joins match {
      case Ours => ours && !sparks
      case Mixed => ours && sparks
      case NoJoin => !ours && !sparks
      case Sparks => !ours && sparks
      case Rejected(_, someAreOurs) => ours == someAreOurs && sparks
      case OursOrRejected => ours != sparks
      case AnyJoin => true
    }
    assert(asExpected, s"not the expected joins: ${withIt.plan}")
    if (each.byBatch) same(without.rows, withIt.rows)
    else same(Seq(without.rows.flatten.sorted), Seq(withIt.rows.flatten.sorted))
  }

  /** Compares queries on static tables, in one session each. */
  protected def compareTables(queries: Seq[String], settings: Seq[(String, String)]): Assertion = {
    val answers = Seq(plain, extended).map { root =>
      val session = root.newSession()
      // Set as on the command line, where no value is checked before its setting is known.
      settings.foreach { case (key, value) => session.sessionState.conf.settings.put(key, value) }
      SparkSession.setActiveSession(session)
      try {
        new ParityInputs(session, files, streaming = false).views()
        queries.map(query =>
          withClue(s"$query: ")(session.sql(query).collect().map(text(_: Row)).sorted.toSeq)
        )
      } finally SparkSession.clearActiveSession()
    }
    for (((query, without), withIt) <- queries.zip(answers.head).zip(answers(1)))
      withClue(s"$query: ")(same(Seq(without), Seq(withIt)))
    assert(answers.head.exists(_.nonEmpty))
  }

  private def same(expected: Seq[Seq[String]], found: Seq[Seq[String]]): Assertion = {
    for (((some, others), at) <- expected.zipAll(found, Nil, Nil).zipWithIndex if some != others)
      fail(
        s"batch $at: only Spark has ${shown(some.diff(others))}, only streamjoin has ${shown(others.diff(some))}"
      )
    succeed
  }

  private def shown(rows: Seq[String]): String =
    s"${rows.size} rows ${rows.take(6).mkString("{", ", ", "}")}"

  private def first(error: Throwable): String =
    SparkTest.messages(error).flatMap(Option(_)).map(_.take(600)).mkString(" / ")

  private def run(root: SparkSession, each: ParityCase): Outcome = {
    val folder = if (each.runs.size == 1) files else Path.of(newFolder(s"${each.name} in"))
    val checkpoint = newFolder(each.name)
    var plan: SparkPlan = null
    val out = Path.of(newFolder(s"${each.name} out"))
    val sinks = for ((once, number) <- each.runs.zipWithIndex) yield {
      if (each.runs.size > 1) ParityInputs.release(files, folder, once.files)
      val session = root.newSession()
      session.conf.set("spark.sql.shuffle.partitions", 1)
      once.settings.foreach { case (key, value) => session.conf.set(key, value) }
      SparkSession.setActiveSession(session)
      val sink = new Sink(session, out)
      try {
        val writer = each
          .query(new ParityInputs(session, folder, number))
          .writeStream
          .outputMode(each.mode)
          .option("checkpointLocation", checkpoint)
        each.trigger.foreach(writer.trigger)
        val query = each.write.start(writer, sink)
        if (once.fails) assert(Try(query.processAllAvailable()).isFailure)
        else if (each.trigger.exists(_ != Trigger.ProcessingTime(0)))
          assert(query.awaitTermination(60000), "the query did not end")
        else query.processAllAvailable()
        if (number == each.runs.size - 1) each.write.finish(sink)
        plan = query
          .asInstanceOf[StreamingQueryWrapper]
          .streamingQuery
          .asInstanceOf[MicroBatchExecution]
          .lastExecution
          .executedPlan
      } finally {
        session.streams.active.foreach(_.stop())
        SparkSession.clearActiveSession()
      }
      sink
    }
    Outcome(sinks.flatMap(_.received), plan)
  }
}
