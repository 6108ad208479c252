import sbt._
import sbt.librarymanagement.{Configuration, ModuleID}

/**
 * One of the Spark lines in `project/spark-lines`, for which this tree is built.
 *
 * @param name
 *   the first two numbers of its versions
 * @param version
 *   the version to compile against
 * @param fromMaven
 *   whether its jars come from Maven; otherwise they come from its Python package, in the line's
 *   Python environment
 */
final case class SparkLine(name: String, version: String, fromMaven: Boolean) {
  import SparkLine._

  /** Spark, if it comes from Maven. */
  def modules(scope: Configuration): Seq[ModuleID] =
    if (fromMaven) Seq("org.apache.spark" % "spark-sql_2.13" % version % scope) else Nil

  /** Spark, if it does not come from Maven. Scala's own library comes from sbt. */
  lazy val jars: Seq[File] =
    if (fromMaven) Nil
    else {
      val found = (file(s".venv-$name/lib") * "python*" / "site-packages" / "pyspark" / "jars" * "*.jar").get
      if (found.isEmpty) sys.error(s"PySpark $version is missing, run: make .venv-$name/.installed")
      found.filterNot(_.name.startsWith("scala-library"))
    }

  /**
   * The version of Spark's SQL test files. Python packages do not contain them; the newest Maven
   * version is used instead.
   */
  def textsVersion: String = if (fromMaven) version else all.filter(_.fromMaven).last.version

  /** The output folder of this line, so that lines do not overwrite each other's files. */
  def folder(target: File): File = target / s"spark-$name"

  /**
   * Source folders for this line: `scala-spark-4.1` is for a single line, `scala-spark-4.1-4.2` for
   * a closed range, and `scala-spark-4.2+` for all lines from 4.2 on, so that a newer line needs no
   * new folder name.
   */
  def sources(directory: File): Seq[File] = IO.listFiles(directory).toSeq.filter { folder =>
    folder.getName match {
      case From(first) => isInOrder(first, name)
      case Range(first, last) => isInOrder(first, name) && isInOrder(name, Option(last).getOrElse(first))
      case _ => false
    }
  }
}

object SparkLine {
  lazy val Default: String = rows.find(_.lift(4).contains("default")).map(_.head).get
  private val From = """scala-spark-(\d+\.\d+)\+""".r
  private val Range = """scala-spark-(\d+\.\d+)(?:-(\d+\.\d+))?""".r

  /**
   * The tests that `make test-line` runs on a line other than the default one, and their helpers:
   * tests of single lines, traces, parity, Spark's own as-of join and its SQL test files.
   */
  def isTestedOnEachLine(source: File): Boolean =
    TestedOnEachLine.pattern.matcher(source.getPath).matches

  private val TestedOnEachLine =
    (""".*/(scala-spark-[^/]+/.*|((SparkTest|JoinTest|SqlTest|CheckpointTest|Frames|TraceQuery|TraceSuite)""" +
      """|parity/Parity\w+|temporal/(TemporalTest|\w*AsOfJoinSuite)|sql/SqlTextsSuite|operator/TwoActionsSuite)\.scala""" +
      """|LocalFilesWithoutProcesses\.java)""").r

  private lazy val rows: Seq[Seq[String]] =
    IO.readLines(file("project/spark-lines")).filterNot(_.startsWith("#")).map(_.split(" ").toSeq)

  /** From the oldest to the newest. */
  lazy val all: Seq[SparkLine] = rows
    .map { case Seq(name, version, from, _*) => SparkLine(name, version, from == "maven") }
    .sortBy(line => numbers(line.name))

  def of(name: String): SparkLine =
    all
      .find(_.name == name)
      .getOrElse(sys.error(s"-Dspark=$name; the lines are ${all.map(_.name).mkString(", ")}"))

  private def isInOrder(first: String, last: String): Boolean =
    Ordering[(Int, Int)].lteq(numbers(first), numbers(last))

  private def numbers(line: String): (Int, Int) = {
    val Array(major, minor) = line.split('.').map(_.toInt)
    (major, minor)
  }
}
