package org.apache.spark.sql.streamjoin.arrangement

import java.lang.management.ManagementFactory
import java.nio.file.{Files, Path}
import java.util.concurrent.TimeUnit

import scala.jdk.CollectionConverters._

import org.apache.commons.io.FileUtils
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.network.util.JavaUtils
import org.apache.spark.sql.streamjoin.SparkTest

/**
 * The stories of [[RestoredSuite]], in which the process is killed in a batch of the maintainer
 * before anything is restored, and a new one continues.
 */
class RestoredProcessSuite extends AnyFunSuite with BeforeAndAfterAll {
  import RestoredProcessSuite._

  private val folder = Files.createTempDirectory("streamjoin-test-")
  private val home = folder.resolve("home")
  private val killed = folder.resolve("killed")

  private def start(arguments: String*): Process = {
    val runtime = ManagementFactory.getRuntimeMXBean
    // What Spark needs; the agents and the settings of a build tool are its own.
    val options = runtime.getInputArguments.asScala.filter(_.startsWith("--add-opens"))
    val command =
      Seq(Path.of(sys.props("java.home"), "bin", "java").toString, "-Xmx1g") ++ options ++
        Seq("-cp", sys.props("java.class.path"), classOf[StuckFileSystem].getPackageName + ".RestoredProcess")
    val log = folder.resolve("log").toFile
    new ProcessBuilder((command ++ arguments).asJava)
      .redirectErrorStream(true)
      .redirectOutput(ProcessBuilder.Redirect.appendTo(log))
      .start()
  }

  private def log = Files.readString(folder.resolve("log")).takeRight(5000)

  /** Kills the process that has begun, in its batch. */
  private def begin(): Unit = {
    val stuck = folder.resolve("stuck")
    val process = start(home.toString, stuck.toString)
    try {
      val deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(Patience)
      while (!Files.exists(stuck)) {
        assert(process.isAlive && System.nanoTime() < deadline, log)
        Thread.sleep(20)
      }
    } finally {
      process.destroyForcibly()
      process.waitFor(): Unit
    }
    def has(of: String) = Files.exists(home.resolve(of))
    assert(has("checkpoint/offsets/3") && !has("checkpoint/commits/3") && !has("arrangement/versions/3"))
    FileUtils.copyDirectory(home.toFile, killed.toFile)
  }

  private lazy val hasBegun = begin()

  /** In `make test-long` alone: each is a start of Spark. */
  private val stories =
    if (SparkTest.isLong) RestoredWorld.Stories ++ RestoredWorld.StoriesOfTargets else Nil

  for (story <- stories) test(story.name) {
    hasBegun: Unit
    FileUtils.deleteDirectory(home.toFile)
    FileUtils.copyDirectory(killed.toFile, home.toFile)
    val result = Files.createTempFile(folder, "result", "")
    val process = start(home.toString, result.toString, story.name)
    try assert(process.waitFor(Patience, TimeUnit.SECONDS) && process.exitValue == 0, log)
    finally process.destroyForcibly(): Unit
    assert(Files.readString(result) == story.expected.text)
  }

  override protected def afterAll(): Unit =
    try JavaUtils.deleteRecursively(folder.toFile)
    finally super.afterAll()
}

private object RestoredProcessSuite {

  /** In seconds; a start of Spark takes a few. */
  private val Patience = 180L
}
