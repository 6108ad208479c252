package org.apache.spark.sql.streamjoin.arrangement.index

import java.util.UUID

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.streamjoin.SparkTest
import org.apache.spark.sql.streamjoin.arrangement.source.SnapshotDiffReader
import org.apache.spark.sql.streamjoin.arrangement.storage.{Snapshot, VersionId}
import org.apache.spark.sql.streamjoin.arrangement.{ArrangementFiles, Item, Model}
import org.apache.spark.sql.streamjoin.state.ExecutorMemory

/** Indexes and manifests in memory, while the arrangement is restored now and then. */
class RestoredIndexSuite extends AnyFunSuite {
  private val seeds = SparkTest.seeds(default = 1)

  private def registry(limit: Long) = new IndexRegistry(ExecutorMemory.Limit(new ExecutorMemory, limit))

  private def grow(files: ArrangementFiles, random: Random): Unit = {
    val before = files.collections.lastOption.getOrElse(Map.empty[Item, Long])
    files.add(
      Model.changes(random, before, keys = 6, most = 8),
      base = files.newest >= 0 && random.nextInt(4) == 0
    )
  }

  private def changes(files: ArrangementFiles, indexes: IndexRegistry, from: Long, to: Long) = {
    val reader = new SnapshotDiffReader(files.ref, indexes, files.conf)
    val end = Snapshot(to, id = Some(files.idOf(to).id))
    Model.sum((0 until files.partitions).iterator.flatMap { partition =>
      reader.changes(partition, Snapshot(from), end).map(change => Item.of(change.row) -> change.copies.toInt)
    })
  }

  test("a base of a version that went is not taken for the one that has its number") {
    val files = new ArrangementFiles
    try {
      val random = new Random(1)
      def add(base: Boolean = false): Unit =
        files.add(
          Model.changes(random, files.collections.lastOption.getOrElse(Map.empty), keys = 6, most = 8),
          base
        )
      (0 to 3).foreach(_ => add())
      add(base = true)
      // Nothing stays in memory, so each use reads the files of the base, which version 4 names.
      val indexes = registry(1L)
      def rows(version: Long) = files.rows(indexes, version, index = 0, Some(3L))
      assert(rows(3) == files.collections(3))
      files.restore(3)
      add(base = true)
      assert(rows(3) == files.collections(3))
      assert(rows(4) == files.collections(4))
    } finally files.delete()
  }

  private val cases = for {
    limit <- Seq("enough memory" -> Long.MaxValue, "little memory" -> 2000L)
    isOld <- Seq(false, true)
  } yield (limit, isOld)

  for (((name, limit), isOld) <- SparkTest.part(cases, every = 3))
    test(
      s"a version has its rows and changes, with $name${if (isOld) ", partly of an earlier release" else ""}"
    ) {
      var restores = 0
      for (seed <- 0 until seeds) {
        val files = new ArrangementFiles
        try {
          val random = new Random(seed)
          val indexes = registry(limit)
          var gone = Seq.empty[VersionId]
          for (step <- 0 until 40) {
            val clue = s"seed $seed, step $step"
            random.nextInt(6) match {
              case 0 if files.newest > 2 =>
                val to = files.newest - 1 - random.nextInt(2)
                gone ++= (to + 1 to files.newest).map(files.idOf)
                files.restore(to)
              case n if n < 4 || files.newest < 0 =>
                grow(files, random)
                if (isOld && random.nextBoolean()) files.forgetIds()
              case _ => ()
            }
            val version = math.max(0, files.newest - random.nextInt(3))
            val low = math.max(0, version - random.nextInt(3))
            val index = random.nextInt(2)
            assert(
              files.rows(indexes, version, index, Some(low)) == files.collections(version.toInt),
              clue
            )
            val changed = Model.plus(
              files.collections(low.toInt),
              changes(files, indexes, low, version).toSeq
                .map { case (item, copies) => item -> copies.toInt }
            )
            assert(changed == files.collections(version.toInt), clue)
          }
          restores += gone.size
          // What is not in memory is not taken for what has its number.
          (gone :+ VersionId(files.newest, UUID.randomUUID())).foreach { version =>
            val error = intercept[Exception] {
              registry(limit).get(files.ref, 0, 0, version.number, version, files.conf, new LoadStats)
            }
            assert(SparkTest.errorClass(error).contains("STREAMJOIN_ARRANGEMENT_RESTORED.READER"), error)
          }
        } finally files.delete()
      }
      assert(restores > 0)
    }
}
