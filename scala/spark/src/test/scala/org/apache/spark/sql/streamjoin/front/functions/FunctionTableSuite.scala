package org.apache.spark.sql.streamjoin.front.functions

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.streamjoin.base.FunctionTable
import org.apache.spark.sql.streamjoin.base.FunctionTable.Language

/** The table of functions against what the Scala API and the builders have. */
class FunctionTableSuite extends AnyFunSuite {

  private case class Member(name: String, signature: String) {
    def parameters: Seq[String] = """(\w+): """.r.findAllMatchIn(signature).map(_.group(1)).toSeq
    def result: String = signature.split("streamjoin\\.").last
  }

  /** The members of each class and object of the API, by `class C` or `object C`. */
  private lazy val api: Map[String, Seq[Member]] = {
    val lines = Files.readAllLines(Path.of("scala/signatures.txt")).asScala.toSeq
    val heads = lines.zipWithIndex.filterNot(_._1.startsWith(" "))
    heads.map { case (head, at) =>
      head.replace("streamjoin.", "") -> lines.drop(at + 1).takeWhile(_.startsWith(" ")).map { line =>
        val name = line.trim.takeWhile(_ != ':')
        Member(name, line.trim.drop(name.length + 2))
      }
    }.toMap
  }

  private def members(homes: String*): Seq[Member] = homes.flatMap(api.getOrElse(_, Nil))

  private val ofScala = FunctionTable.functions.filter(_.has(Language.Scala))

  private def home(function: FunctionTable.Function): (String, String) = {
    val parts = function.name(Language.Scala).split('.')
    (parts(0), parts(1))
  }

  test("each function of the table is in the Scala API, with its parameters") {
    val missing = ofScala.flatMap { function =>
      val (owner, name) = home(function)
      val found = members(s"object $owner", s"class $owner").filter(_.name == name)
      val builders = Seq(s"object $owner", "class JoinBuilder") ++ found.map(it => s"class ${it.result}")
      val known = (found ++ members(builders: _*)).flatMap(it => it.name +: it.parameters)
      if (found.isEmpty) Seq(s"$owner.$name")
      else function.parameters.flatMap(_.scala).filterNot(known.contains).map(it => s"$it of $owner.$name")
    }
    assert(ofScala.size > 20)
    assert(missing.isEmpty)
  }

  test("each function of the Scala API is in the table") {
    val known = ofScala.map(home) ++
      ofScala.flatMap(function => function.parameters.flatMap(_.scala).map(home(function)._1 -> _))
    val unknown = for {
      owner <- ofScala.map(home(_)._1).distinct
      member <- members(s"object $owner")
      if !Set("<init>", "version", "sparkVersion")(member.name) && !known.contains(owner -> member.name)
    } yield s"$owner.${member.name}"
    assert(unknown.isEmpty)
  }

  test("each call has a builder, and each builder a call") {
    assert(FrameFunction.builders.keySet == FunctionTable.calls("frame").keySet)
    assert(TableFunction.builders.keySet == FunctionTable.calls("table", "command").keySet)
  }

  test("a function has its name in each language, and Python's in one that does not have it") {
    val names = Seq(Language.Python, Language.Scala, Language.Sql)
    def of(id: String) = names.map(FunctionTable.byId(id).name)
    assert(of("versions") == Seq("sj.versions", "StreamJoin.versions", "VERSIONS"))
    assert(of("idle_after") == Seq("sj.idle_after", "StreamInputs.idleAfter", "sj.idle_after"))
  }
}
