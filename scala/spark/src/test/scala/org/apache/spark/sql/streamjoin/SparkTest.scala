package org.apache.spark.sql.streamjoin

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path}
import java.util.concurrent.Executors

import scala.jdk.CollectionConverters._
import scala.util.{Try, Using}

import org.apache.hadoop.conf.Configuration
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.{Assertion, BeforeAndAfterAll}

import org.apache.spark.network.util.JavaUtils
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider
import org.apache.spark.sql.streaming.StateOperatorProgress
import org.apache.spark.sql.streamjoin.base.Figures
import org.apache.spark.sql.streamjoin.operator.OperatorKind
import org.apache.spark.{SPARK_VERSION, SparkThrowable}

/** One local session per suite, with the extension, tuned for batches of few rows. */
trait SparkTest extends BeforeAndAfterAll { this: AnyFunSuite =>

  protected def extensions: String = SparkTest.Extensions

  /** More settings of the session, or other ones. */
  protected def settings: Map[String, String] = Map.empty

  protected lazy val spark: SparkSession =
    SparkTest.session(getClass.getSimpleName, Map("spark.sql.extensions" -> extensions) ++ settings)

  private lazy val root: Path = Files.createTempDirectory("streamjoin-test-")

  /** A new folder, deleted after the suite. */
  protected def newFolder(name: String = "checkpoint"): String =
    Files.createTempDirectory(root, name.replaceAll("\\W+", "-") + "-").toString

  /** Settings for queries started in the body. */
  protected def withConf[T](settings: (String, String)*)(body: => T): T = {
    // Not `getOption`, which returns the default of a setting that is not set.
    val before = settings.map { case (key, _) => key -> spark.sessionState.conf.getAllConfs.get(key) }
    settings.foreach { case (key, value) => spark.conf.set(key, value) }
    try body
    finally before.foreach { case (key, value) => value.fold(spark.conf.unset(key))(spark.conf.set(key, _)) }
  }

  /** One test per case, several running at a time: a small batch mostly waits. */
  protected def testAll[A](cases: Seq[A], name: A => String)(body: A => Assertion): Unit = {
    lazy val pool = Executors.newFixedThreadPool(SparkTest.AtOnce)
    lazy val results = cases.map(each => pool.submit(() => Try(body(each))))
    cases.indices.foreach { at =>
      test(name(cases(at))) {
        val result = results(at).get()
        if (at == cases.size - 1) pool.shutdown()
        result.get
      }
    }
  }

  /** A test of `make test-long` alone: the mechanism has another, shorter one. */
  protected def testLong(name: String)(body: => Any): Unit = if (SparkTest.isLong) test(name)(body)

  override protected def afterAll(): Unit =
    try {
      Try(spark.streams.active.foreach(_.stop()))
      spark.stop()
      SparkSession.clearActiveSession()
      SparkSession.clearDefaultSession()
      JavaUtils.deleteRecursively(root.toFile)
    } finally super.afterAll()

  /** The progress has the figures that are defined; those of a column or a change may be absent. */
  protected def checkFigures(operator: StateOperatorProgress, kind: OperatorKind): Unit = {
    val store = StateStoreProvider.create(spark.sessionState.conf.stateStoreProviderClass)
    val found = operator.customMetrics.keySet.asScala.toSet.map((_: String).takeWhile(_ != '.')) --
      store.supportedCustomMetrics.map(_.name) -- store.supportedInstanceMetrics.map(_.metricPrefix)
    val hasSides = if (found("rowsIn")) Set("side") else Set("side", "input")
    val (ofColumns, others) =
      Figures
        .of("operator")
        .filter(_.isOf(kind.name))
        .partition(figure => Set("column", "change")(figure.per))
    val names = others.flatMap { figure =>
      if (hasSides(figure.per)) Seq("left", "right").map(side => Figures.ofSide(Some(side), figure.name))
      else Seq(figure.name)
    }
    assert(found -- ofColumns.map(_.name) == names.toSet)
  }
}

object SparkTest {
  private val Extensions = "org.apache.spark.sql.streamjoin.StreamJoinExtensions"

  def session(name: String, settings: Map[String, String]): SparkSession = {
    val session = builder(name).config(settings).getOrCreate()
    shrink(session.sparkContext.hadoopConfiguration)
    session
  }

  private def builder(name: String) = SparkSession
    .builder()
    .master("local[2]")
    .appName(name)
    .config("spark.sql.extensions", Extensions)
    .config("spark.sql.shuffle.partitions", 2)
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.ui.enabled", false)
    // Failures surface as exceptions; the log would only repeat those that a test expects.
    .config("spark.log.level", "OFF")
    .config("spark.sql.streaming.pollingDelay", "1ms")
    .config("spark.sql.codegen.wholeStage", false)
    // Generating the code of expressions, even if Spark has its class already, takes a fifth of the
    // time. The parity suite, `make test-long` and Python's programs keep Spark's default.
    .config("spark.sql.codegen.factoryMode", if (isLong) "FALLBACK" else "NO_CODEGEN")
    // Nobody reads the plan of each batch on a page.
    .config("spark.sql.ui.explainMode", "simple")
    // With isolation, each query has its own class loader and reloads all classes of its tasks.
    .config("spark.sql.artifact.isolation.enabled", false)
    // Maintenance of the state stores would only compete with the tiny batches.
    .config("spark.sql.streaming.stateStore.maintenanceInterval", "1h")

  /** The oldest line lacks some of what the others have. */
  val isSpark41: Boolean = SPARK_VERSION.startsWith("4.1.")

  private val AtOnce = 3

  /**
   * Number of random cases of a suite: `STREAMJOIN_SEEDS`, as environment variable or system
   * property, but never fewer than the default.
   */
  def seeds(default: Int): Int = asked.fold(default)(number => math.max(default, number.toInt))

  /**
   * Number of seeds of a suite that has several cases for each: 20 times [[seeds]] cases in all, so
   * hundreds in `make test-long`.
   */
  def seedsOf(cases: Int): Int = math.min(seeds(1), math.max(1, 20 * seeds(1) / cases))

  /**
   * Each batch sends Hadoop's settings to its tasks: most of them are defaults of file systems and
   * servers that no test has.
   */
  private def shrink(settings: Configuration): Unit = {
    val unused = settings.iterator.asScala.map(_.getKey).filterNot(Used.findFirstIn(_).isDefined).toSeq
    unused.foreach(settings.unset)
  }

  private val Used =
    "^(fs\\.(file|local|default|Abstract.*\\.file|creation|permissions)|io\\.|file\\.|hadoop\\.tmp)".r

  /** Whether nothing is left out, as in `make test-long`. */
  def isLong: Boolean = asked.isDefined

  /** Whether the default line of Spark runs all tests, and this one only what may differ. */
  def isOtherLine: Boolean = sys.props.get("tests").contains("line")

  /**
   * Every n-th case, beginning `from` places later; all of them in `make test-long`. At least one,
   * if there are any.
   */
  def part[A](cases: Seq[A], every: Int, from: Int = 0): Seq[A] =
    if (isLong || cases.isEmpty) cases
    else cases.indices.drop(from % math.min(every, cases.size)).by(every).map(cases)

  /** Deletes a file, and its checksum by Hadoop's local file system. */
  def remove(file: Path): Unit = {
    assert(Files.deleteIfExists(file), s"no $file")
    removeChecksum(file)
  }

  /** Damages or restores a file. Its checksum, which would be wrong, is removed. */
  def overwrite(file: Path, bytes: Array[Byte]): Unit = {
    Files.write(file, bytes)
    removeChecksum(file)
  }

  private def removeChecksum(file: Path): Unit =
    Files.deleteIfExists(file.resolveSibling(s".${file.getFileName}.crc")): Unit

  def overwrite(file: Path, text: String): Unit = overwrite(file, text.getBytes(UTF_8))

  /** The numbers that name files or folders, sorted. */
  def numbers(folder: Path): Seq[Long] =
    if (!Files.exists(folder)) Nil
    else
      Using.resource(Files.list(folder)) {
        _.iterator.asScala.flatMap(_.getFileName.toString.toLongOption).toSeq.sorted
      }

  /** Deletes the last commit, so that its batch runs again; returns its number. */
  def forgetCommit(checkpoint: String): Long = {
    val commits = Path.of(checkpoint, "commits")
    val last = numbers(commits).max
    remove(commits.resolve(last.toString))
    last
  }

  private def asked = sys.props.get("STREAMJOIN_SEEDS").orElse(sys.env.get("STREAMJOIN_SEEDS"))

  /** The `STREAMJOIN_…` class of a failure, from anywhere in its chain of causes. */
  def errorClass(error: Throwable): Option[String] =
    causes(error)
      .collect { case known: SparkThrowable if known.getCondition != null => known.getCondition }
      .find(_.startsWith("STREAMJOIN_"))

  /** The messages of a failure and its causes, outermost first. */
  def messages(error: Throwable): Seq[String] = causes(error).map(_.getMessage).toSeq

  private def causes(error: Throwable): Iterator[Throwable] =
    Iterator.iterate(error)(_.getCause).takeWhile(_ != null)
}
