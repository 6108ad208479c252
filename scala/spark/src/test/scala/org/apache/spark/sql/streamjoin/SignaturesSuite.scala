package org.apache.spark.sql.streamjoin

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._
import scala.reflect.runtime.universe._

import org.scalatest.funsuite.AnyFunSuite

/**
 * The public Scala API as text, in `scala/signatures.txt`. A change of that file in a commit is a
 * change of what users may call; `docs/compatibility.md` says which are allowed. With
 * STREAMJOIN_SIGNATURES=write in the environment, the file is written: `make signatures`.
 */
class SignaturesSuite extends AnyFunSuite {
  private val File = Path.of("scala/signatures.txt")
  private val Sources = Path.of("scala/spark/src/main/scala/streamjoin")

  private val Declared =
    """(?m)^(?:sealed |final )*(?:abstract )?(?:case )?(class|object|trait) (\w+)""".r

  private def symbols: Seq[ClassSymbol] = {
    val files = Files.list(Sources)
    val found =
      try files.iterator.asScala.toSeq.flatMap(file => Declared.findAllMatchIn(Files.readString(file)))
      finally files.close()
    val mirror = runtimeMirror(getClass.getClassLoader)
    found
      .map(declared => (declared.group(1), declared.group(2)))
      .map {
        case ("object", name) => mirror.staticModule(s"streamjoin.$name").moduleClass.asClass
        case (_, name) => mirror.staticClass(s"streamjoin.$name")
      }
      .sortBy(symbol => (symbol.fullName, symbol.isModuleClass))
  }

  private def isPublic(symbol: Symbol): Boolean =
    symbol.isPublic && symbol.privateWithin == NoSymbol && !symbol.isSynthetic

  private def lines: Seq[String] = symbols.filter(isPublic).flatMap { symbol =>
    val kind = if (symbol.isModuleClass) "object" else "class"
    val members = symbol.toType.decls.toSeq.filter(member => member.isMethod && isPublic(member))
    s"$kind ${symbol.fullName}" +:
      members.map(member => s"    ${member.name.decodedName}: ${member.typeSignature}").sorted
  }

  test("the signatures are those that were promised") {
    val now = lines
    assert(now.size > 60)
    if (sys.env.get("STREAMJOIN_SIGNATURES").contains("write")) Files.write(File, now.asJava): Unit
    assert(now == Files.readAllLines(File).asScala.toSeq)
  }
}
