package org.apache.spark.sql.streamjoin.arrangement

import java.nio.file.{Files, Path => NioPath}

import org.apache.hadoop.fs.{FSDataOutputStream, FSDataOutputStreamBuilder, LocalFileSystem, Path}

import org.apache.spark.sql.streamjoin.SparkTest

/**
 * A process with the world of a [[RestoredWorld]]: `<home> <file>` begins it and is stuck in a
 * batch of the maintainer, once the file is there; `<home> <file> <story>` continues it, and writes
 * what each of them gets.
 */
object RestoredProcess {
  def main(arguments: Array[String]): Unit = {
    val (home, file) = (arguments(0), NioPath.of(arguments(1)))
    val spark = SparkTest.session(getClass.getSimpleName, Map("spark.sql.shuffle.partitions" -> "1"))
    val world = new RestoredWorld(spark, home)
    arguments.lift(2) match {
      case None =>
        world.begin(withTarget = true)
        spark.conf.set("fs.file.impl", classOf[StuckFileSystem].getName)
        spark.conf.set("fs.file.impl.disable.cache", "true")
        StuckFileSystem.says = Some(file)
        world.version(2 -> "new")
      case Some(name) =>
        val story = (RestoredWorld.Stories ++ RestoredWorld.StoriesOfTargets).find(_.name == name).get
        story.happens(world)
        Files.writeString(file, world.outcome(story.isDropped).text)
        spark.stop()
    }
  }
}

/** The first task that writes changes does not come back. */
class StuckFileSystem extends LocalFileSystem {
  override def createFile(path: Path): FSDataOutputStreamBuilder[_ <: FSDataOutputStream, _] = {
    if (path.toString.contains("/changes/")) {
      StuckFileSystem.says.foreach(Files.createFile(_))
      Thread.sleep(Long.MaxValue)
    }
    super.createFile(path)
  }
}

object StuckFileSystem {

  /** The file that it makes. */
  @volatile var says: Option[NioPath] = None
}
