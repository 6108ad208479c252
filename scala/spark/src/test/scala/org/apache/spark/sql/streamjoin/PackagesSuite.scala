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

  /** The engine: what belongs to no single join. Each package, and those that it may use. */
  private val Engine = Seq(
    "base" -> "",
    "time" -> "base",
    "watermark" -> "base time",
    "plans" -> "base time watermark",
    "analysis" -> "base time watermark plans",
    "state" -> "base",
    "changes" -> "base watermark",
    "files" -> "base",
    "operator.explain" -> "base time watermark plans analysis",
    "observe.collect" -> "base watermark state",
    "laterows" -> "base",
    "checkpoint" -> "base plans analysis state",
    "evolve" -> "base time watermark plans analysis checkpoint",
    "batch" -> "base watermark plans analysis observe.collect laterows checkpoint evolve",
    "operator" -> "base watermark plans analysis state operator.explain observe.collect laterows checkpoint batch",
    "observe.read" -> "base time watermark state observe.collect laterows checkpoint batch operator registry",
    "observe.publish.page" -> "base",
    "observe.publish" -> "base observe.read observe.publish.page monitor",
    "monitor" -> "base",
    "arrangement.storage" -> "base",
    "arrangement.index" -> "base state arrangement.storage",
    "arrangement.maintain" -> "base time laterows batch changes arrangement.storage arrangement.index",
    "arrangement.source" -> "base time arrangement.storage arrangement.index arrangement.maintain",
    "upsert" -> "base checkpoint arrangement.storage",
    "arrangement.lookup" -> "base plans analysis arrangement.storage arrangement.index arrangement.source"
  ).map { case (name, uses) => name -> uses.split(' ').toSet }.toMap

  private val Joins = Seq("interval", "order", "temporal", "table", "delta").map("joins." + _).toSet

  /** They ask the registry. */
  private val Observers = Set("observe.read", "observe.publish", "observe.publish.page")

  private val Sql = Set("base", "time", "plans", "analysis")

  private val Rules = Set("rules.query", "rules.start", "rules.batch")

  private val Import = """\s*import org\.apache\.spark\.sql\.streamjoin\.(.*)""".r

  /**
   * The package of a file or an import, such as `joins.interval`.
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

  private def mayUse(user: String, other: String): Boolean = user == other || (user match {
    case Root => true
    case engine if Engine.contains(engine) => Engine(engine)(other)
    // A join uses the engine and no other join.
    case join if Joins(join) => Engine.contains(other)
    case "registry" => Engine.contains(other) && !Observers(other) || Joins(other)
    case "front.functions" => Engine.contains(other) || Joins(other) || other == "registry"
    case "front.sql" => Sql(other)
    case rules if Rules(rules) => other != Root
    case _ => false
  })

  test("the known packages are exactly those in the sources") {
    val known = Engine.keySet ++ Joins ++ Rules ++ Set("registry", "front.functions", "front.sql", Root)
    val there = used.keys.flatMap { case (user, other) => Seq(user, other) }.toSet
    assert(there == known)
  }

  test("packages depend on each other in one direction") {
    val wrong = used.collect {
      case ((user, other), file) if !mayUse(user, other) => s"$user uses $other in $file"
    }
    assert(wrong.isEmpty, wrong.mkString("\n"))
  }

  test("what uses a join outside its folder are few files") {
    val users = files.flatMap { file =>
      val in = packageOf(Sources.relativize(file).iterator.asScala.map(_.toString).toSeq.init)
      Files.readAllLines(file).asScala.collect { case Import(path) =>
        (packageOf(path.split("[.{]").toSeq.filter(_.nonEmpty)), in, file.getFileName.toString)
      }
    }
    Joins.foreach { join =>
      val outside = users.collect { case (`join`, in, file) if in != join => file }.distinct
      info(s"$join: ${outside.sorted.mkString(", ")}")
      assert(outside.size <= MostUsersOfAJoin)
    }
  }

  /** `docs/architecture.md` lists what a new join touches. */
  private val MostUsersOfAJoin = 8

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
    assert(rules.size > 20)
    assert(unused.isEmpty)
  }

  test("a dependency in the wrong direction is detected") {
    assert(!mayUse("watermark", "plans"))
    assert(!mayUse("state", "operator"))
    assert(!mayUse("operator", "joins.interval"))
    assert(!mayUse("joins.interval", "joins.order"))
    assert(!mayUse("joins.order", "rules.start"))
    assert(!mayUse("arrangement.index", "arrangement.lookup"))
    assert(!mayUse("rules.batch", Root))
    assert(mayUse("joins.interval", "state"))
    assert(mayUse("joins.delta", "arrangement.lookup"))
    assert(mayUse("rules.start", "joins.table"))
    assert(mayUse("front.functions", "joins.delta"))
    assert(!mayUse("joins.delta", "front.functions"))
  }
}
