package org.apache.spark.sql.streamjoin

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

/**
 * Packages may depend on each other in one direction only; `docs/architecture.md` describes them.
 */
class PackagesSuite extends AnyFunSuite {
  private val Sources = Path.of("scala/spark/src/main/scala/org/apache/spark/sql/streamjoin")
  private val Root = "the root"

  /** In this order: each package may use those before it, and whatever those may use. */
  private val Chain = Seq("base", "time", "watermark", "plans", "analysis", "operators", "rules", Root)

  /**
   * Packages beside the chain: what each may use, and the first package of the chain that may use
   * it.
   */
  private val Beside = Map(
    "state" -> (Set("base"), "operators"),
    "arrangement" -> (Set("base", "state"), "operators"),
    "files" -> (Set("base"), "rules"),
    "sql" -> (Set("base", "time", "plans", "analysis"), "rules")
  )

  private val Import = """\s*import org\.apache\.spark\.sql\.streamjoin\.(.*)""".r

  /**
   * The package of a file or an import; `operators.interval` is a kind of operator within
   * `operators`.
   */
  private def packageOf(parts: Seq[String]): String = parts.takeWhile(_.head.isLower) match {
    case Seq() => Root
    case names => names.mkString(".")
  }

  private def files: Seq[Path] = {
    val walked = Files.walk(Sources)
    try walked.iterator.asScala.filter(_.toString.endsWith(".scala")).toList
    finally walked.close()
  }

  /** Each dependency between packages, with one file that has it. */
  private lazy val used: Map[(String, String), Path] = files.flatMap { file =>
    val in = packageOf(Sources.relativize(file).iterator.asScala.map(_.toString).toSeq.init)
    Files.readAllLines(file).asScala.collect { case Import(path) =>
      (in, packageOf(path.split("[.{]").toSeq.filter(_.nonEmpty))) -> file
    }
  }.toMap

  private def mayUse(user: String, other: String): Boolean = {
    val (from, to) = (user.split('.').head, other.split('.').head)
    if (user == other) true
    else if (from == "operators" && to == "operators") other == "operators"
    else
      (Beside.get(from), Beside.get(to)) match {
        case (Some((allowed, _)), _) => allowed(to)
        case (None, Some((_, first))) => Chain.indexOf(from) >= Chain.indexOf(first)
        case (None, None) => Chain.indexOf(to) < Chain.indexOf(from) && Chain.contains(to)
      }
  }

  test("the known packages are exactly those in the sources") {
    val known = (Chain ++ Beside.keys).toSet
    val there = used.keys.flatMap { case (user, other) => Seq(user, other) }.map(_.split('.').head).toSet
    assert(there == known)
  }

  test("packages depend on each other in one direction") {
    val wrong = used.collect {
      case ((user, other), file) if !mayUse(user, other) => s"$user uses $other in $file"
    }
    assert(wrong.isEmpty, wrong.mkString("\n"))
  }

  private val Rule =
    """(?:final )?private\[streamjoin\] (?:case class|object) (\w+).* extends (?:Rule\[LogicalPlan\]|SparkStrategy).*""".r

  test("every rule is in the file of its name, and the extension injects it") {
    val rules = files.flatMap { file =>
      Files.readAllLines(file).asScala.collect { case Rule(name) => name -> file }
    }
    val elsewhere = rules.filter { case (name, file) => file.getFileName.toString != s"$name.scala" }
    assert(elsewhere.isEmpty)
    val injected = Files.readString(Sources.resolve("StreamJoinExtensions.scala"))
    val unused =
      rules.map(_._1).filterNot(name => s"=> $name\\)|\\($name\\(_\\)".r.findFirstIn(injected).isDefined)
    assert(rules.size > 20 && unused.isEmpty)
  }

  test("a dependency in the wrong direction is detected") {
    assert(
      !mayUse("watermark", "plans") && !mayUse("state", "operators") && !mayUse(
        "operators",
        "operators.interval"
      )
    )
    assert(
      !mayUse("operators.interval", "operators.order") && !mayUse("analysis", "state") && !mayUse(
        "base",
        Root
      )
    )
    assert(
      mayUse("operators.interval", "state") && mayUse(Root, "files") && mayUse("rules", "operators.interval")
    )
  }
}
