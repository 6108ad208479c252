package org.apache.spark.sql.streamjoin.arrangement

import java.nio.file.{Files, Path}

import scala.util.Random

import org.scalatest.concurrent.Eventually.{eventually, timeout}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Seconds, Span}

import org.apache.spark.network.util.JavaUtils
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streaming.StreamingQueryException
import org.apache.spark.sql.streamjoin.arrangement.maintain.Arrangements
import org.apache.spark.sql.streamjoin.arrangement.source.ArrangementState
import org.apache.spark.sql.streamjoin.{ArrangementTest, SparkTest}
import org.apache.spark.sql.{Encoders, Row}

/** What an arrangement keeps and for how long, and what it rejects with which error class. */
class ArrangementSuite extends AnyFunSuite with ArrangementTest {

  private val schema = "id INT, k INT, op STRING"
  private def orders(keys: Seq[Seq[String]] = Seq(Seq("id"), Seq("k")), root: String = newFolder("a")) =
    maintainer(schema, keys, op = Some("op"), root = root)

  // Retention.

  private val wide = "id INT, name STRING"
  private val random = new Random(1)

  /** Enough bytes for the next batch to write a base. */
  private def large(from: Int) =
    Seq.tabulate(60)(i => Row(from + i, ArrangementTest.randomText(random, 30000)))

  for (kept <- SparkTest.part(Seq(2, 100), every = 2))
    test(s"with bases and $kept retained versions, every readable version is exact") {
      withConf("spark.streamjoin.arrangements.minVersionsToRetain" -> kept.toString) {
        val names = maintainer(wide, Seq(Seq("id"), Seq("name")))
        during(names) {
          var ids = Vector.empty[Seq[Int]]
          for (version <- 0 until 7) {
            val rows = if (version % 2 == 0) large(version * 100) else Seq(Row(version * 100, "x"))
            names.feed(rows: _*)
            ids :+= ids.lastOption.getOrElse(Nil) ++ rows.map(_.getInt(0))
          }
          val newest = names.folder.manifest(6)
          assert(newest.bases.nonEmpty, "no base was written")
          for (version <- 0 to 6) {
            forgetIndexes()
            def seen =
              rowsOf(names.root, Some(version.toLong)).map(_.takeWhile(_ != ' ').toInt).sorted
            if (version >= newest.since) assert(seen == ids(version).sorted, s"version $version")
            else rejected("STREAMJOIN_VERSION_GONE")(seen)
          }
          assert(newest.since == math.max(0, 6 - kept))
          if (kept == 2) assert(numbers(names.root, "versions").head > 0, "nothing was removed")
          else assert(numbers(names.root, "versions") == (0 to 6))
          assert(numbers(names.root, "changes").forall(_ >= numbers(names.root, "versions").head))
          rejected("STREAMJOIN_NO_VERSION")(rowsOf(names.root, Some(7)))
          // The base that the newest version starts from, and the changes since.
          val base = newest.bases.maxBy(_.manifest)
          val live = names.folder.manifest(base.manifest).baseFiles ++
            (base.manifest to newest.version).flatMap(names.folder.manifest(_).changes)
          val lengths = live.map(file => Files.size(Path.of(names.root, file.path)))
          assert(ArrangementState.of(names.folder).bytes == lengths.sum)
        }
      }
    }

  testLong("a lease keeps the versions that its reader needs; once it expires, the reader is rejected") {
    withConf("spark.streamjoin.arrangements.minVersionsToRetain" -> "1") {
      val names = maintainer(wide, Seq(Seq("id"), Seq("name")))
      val reader = deltaJoin(Seq("a" -> names, "b" -> names), "a.id = b.id", Seq("a.id"))
      during(names) {
        names.feed(large(0): _*)
        reader.start().settle()
        names.feed(Row(1000, "x"))
        reader.settle()
        reader.stop()
        for (i <- 1 to 4) names.feed(large(i * 100): _*)
        assert(names.folder.manifest(5).since <= 1)
        forgetIndexes()
        reader.start().settle()
        assert(
          reader.sum() == (0 to 4)
            .flatMap(i => (0 until 60).map(_ + i * 100))
            .appended(1000)
            .map(id => s"$id" -> 1L)
            .toMap
        )
        reader.stop()
        withConf("spark.streamjoin.arrangements.leaseAge" -> "1ms") {
          names.restart()
          for (i <- 6 to 14) names.feed(large(i * 100): _*)
        }
        assert(names.folder.manifest(14).since > 6)
        assert(numbers(names.root, "versions").head > 6, "the changes that it needs are gone")
        for (forgotten <- Seq(false, true)) {
          if (forgotten) forgetIndexes()
          val said = rejected("STREAMJOIN_ARRANGEMENT_RETENTION")(reader.start().settle())
          assert(said.contains("since"))
          reader.stop()
        }
        assert(ArrangementState.of(names.folder).readers.isEmpty, "the rejected reader gets no new lease")
        for (i <- 15 to 16) names.feed(Row(i, "x"))
        assert(names.folder.manifest(16).since == 15)
      }
    }
  }

  test("the leases of a temporary checkpoint go with the query, unless it fails") {
    val it = orders()
    during(it) {
      it.feed(Row(1, 1, "i"))
      val input = MemoryStream[Int](Encoders.scalaInt, spark)
      def changes = spark.readStream.format("streamjoin").load(it.root)
      def found = input
        .toDF()
        .join(
          spark.read.format("streamjoin").option("streamjoin.table", true).load(it.root),
          expr("value = id")
        )
      def readers = ArrangementState.of(it.folder).readers.size
      def released() = eventually(timeout(Span(20, Seconds)))(assert(readers == 0))
      for (query <- Seq(changes, found)) {
        val started = query.writeStream.format("noop").start()
        input.addData(1)
        started.processAllAvailable()
        assert(readers == 1)
        started.stop()
        released()
      }
      // Spark keeps this one's checkpoint.
      val failing = changes.selectExpr("raise_error('no')").writeStream.format("noop").start()
      intercept[StreamingQueryException](failing.processAllAvailable())
      Thread.sleep(500)
      assert(readers == 1)
    }
  }

  test("an arrangement is dropped, and a reader's lease is ended") {
    val it = orders()
    val reader = deltaJoin(Seq("a" -> it, "b" -> it), "a.id = b.k", Seq("a.id", "b.id AS other"))
    def drop(force: Boolean) = spark.sql(s"SELECT * FROM sj_drop_arrangement('${it.root}', $force)").collect()
    def release(name: String) =
      spark.sql(s"SELECT * FROM sj_release_reader('${it.root}', '$name')").collect().toSeq
    during(it) {
      it.feed(Row(1, 1, "i"))
      during(reader)(reader.settle())
      assert(rejected("STREAMJOIN_ARRANGEMENT_USED")(drop(force = true)).contains("maintains it"))
    }
    val names = ArrangementState.of(it.folder).readers.map(_.id)
    assert(names.size == 2)
    names.foreach(name => assert(rejected("STREAMJOIN_ARRANGEMENT_USED")(drop(force = false)).contains(name)))
    assert(release(names.head) == Seq(Row(names.head, 0L)))
    assert(rejected("STREAMJOIN_NO_READER")(release(names.head)).contains(names(1)))
    assert(ArrangementState.of(it.folder).readers.map(_.id) == names.tail)
    // A command as any other: EXPLAIN does not run it, and it is no part of a query.
    val command = s"SELECT * FROM sj_drop_arrangement('${it.root}', true)"
    spark.sql(s"EXPLAIN $command").collect()
    rejected("STREAMJOIN_TABLE_FUNCTION.COMMAND")(spark.sql(s"SELECT count(*) FROM ($command)"))
    assert(it.folder.exists)
    val other = Files.writeString(Path.of(it.root, "not-its-own"), "")
    assert(drop(force = true).toSeq == Seq(Row(s"file:${it.root}")))
    assert(ArrangementTest.files(it.root) == Seq(other))
    Files.delete(other)
    val again = orders(root = it.root)
    during(again)(again.feed(Row(1, 1, "i")))
    drop(force = true)
    assert(!Files.exists(Path.of(it.root)))
    rejected("STREAMJOIN_NO_ARRANGEMENT")(drop(force = true))
    rejected("STREAMJOIN_NO_ARRANGEMENT")(release(names(1)))
    rejected("STREAMJOIN_TABLE_FUNCTION.MISSING_ARGUMENT")(spark.sql("SELECT * FROM sj_drop_arrangement()"))
    rejected("STREAMJOIN_TABLE_FUNCTION.MISSING_ARGUMENT")(spark.sql("SELECT * FROM sj_release_reader('a')"))
  }

  test("a reader is rejected if its arrangement was deleted or replaced") {
    val it = orders()
    val reader = deltaJoin(Seq("a" -> it, "b" -> it), "a.id = b.k", Seq("a.id", "b.id AS other"))
    during(it) {
      it.feed(Row(1, 1, "i"))
      it.feed(Row(2, 1, "i"))
      reader.start().settle()
    }
    reader.stop()
    JavaUtils.deleteRecursively(Path.of(it.root).toFile)
    forgetIndexes()
    rejected("STREAMJOIN_NO_ARRANGEMENT")(reader.start().settle())
    reader.stop()
    rejected("STREAMJOIN_NO_ARRANGEMENT")(rowsOf(it.root))
    // The maintainer's checkpoint refers to versions that no longer exist.
    rejected("STREAMJOIN_ARRANGEMENT_RESTORED.ARRANGEMENT")(it.start())
    val anew = orders(root = it.root)
    during(anew) {
      anew.feed(Row(1, 1, "i"))
      rejected("STREAMJOIN_ARRANGEMENT_REPLACED")(reader.start().settle())
      reader.stop()
    }
  }

  // Competing queries and invalid arguments.

  test("a second query, or other columns, keys or input, are rejected at start()") {
    val it = orders()
    during(it)(it.feed(Row(1, 1, "i")))
    rejected("STREAMJOIN_ARRANGEMENT_OWNED")(orders(root = it.root).start())
    rejected("STREAMJOIN_ARRANGEMENT_CHANGED")(orders(Seq(Seq("id")), root = it.root).start())
    rejected("STREAMJOIN_ARRANGEMENT_CHANGED")(
      maintainer("id LONG, k INT, op STRING", Seq(Seq("id"), Seq("k")), op = Some("op"), root = it.root)
        .start()
    )
    rejected("STREAMJOIN_ARRANGEMENT_CHANGED")(
      maintainer("id INT, k INT", Seq(Seq("id"), Seq("k")), root = it.root).start()
    )
    rejected("STREAMJOIN_ARRANGEMENT_CHANGED")(
      maintainer(schema, Seq(Seq("id"), Seq("k")), op = Some("op"), time = Some("k"), root = it.root).start()
    )
    during(it) {
      it.feed(Row(2, 2, "i"))
      assert(rowsOf(it.root) == Seq("1 1", "2 2"))
    }
  }

  test("of two queries that begin an arrangement at once, one fails and leaves no rows") {
    val one = orders()
    val two = orders(root = one.root)
    during(one, two) {
      one.feed(Row(1, 1, "i"))
      rejected("STREAMJOIN_ARRANGEMENT_OWNED")(two.feed(Row(2, 2, "i")))
      one.feed(Row(3, 3, "i"))
      assert(rowsOf(one.root) == Seq("1 1", "3 3"))
    }
  }

  test("an unknown operation fails the batch, and none of its rows are visible") {
    for (op <- Seq("upsert", "", null)) {
      val it = orders()
      during(it) {
        it.feed(Row(1, 1, "i"))
        val said = rejected("STREAMJOIN_OPERATION")(it.feed(Row(2, 2, "i"), Row(3, 3, op)))
        assert(said.contains("insert"))
        assert(it.folder.newest == 0)
        assert(rowsOf(it.root) == Seq("1 1"))
      }
      rejected("STREAMJOIN_OPERATION")(during(it)(it.settle()))
    }
  }

  test("sj.arrange rejects invalid keys, columns and options") {
    def arrange(condition: String, word: String)(
        schema: String,
        keys: Seq[Seq[String]],
        op: Option[String] = None,
        diff: Option[String] = None,
        time: Option[String] = None
    ): Unit =
      withClue(s"$schema, $keys")(
        assert(rejected(condition)(maintainer(schema, keys, op, diff, time).start()).contains(word))
      )
    val id = Seq(Seq("id"))
    arrange("STREAMJOIN_ARRANGE.UNKNOWN_COLUMN", "nope")("id INT", Seq(Seq("nope")))
    arrange("STREAMJOIN_ARRANGE.NO_KEY", "keys=")("id INT", Nil)
    arrange("STREAMJOIN_ARRANGE.NO_KEY", "keys=")("id INT", Seq(Nil))
    arrange("STREAMJOIN_ARRANGE.KEY_TWICE", "[id]")("id INT", id ++ id)
    arrange("STREAMJOIN_ARRANGE.RESERVED_COLUMN", "_diff")("id INT, _diff LONG", id)
    arrange("STREAMJOIN_ARRANGE.RESERVED_COLUMN", "_version")("id INT, _version LONG", id)
    arrange("STREAMJOIN_ARRANGE.COLUMN_TWICE", "id")("id INT, v INT, ID INT", Seq(Seq("v")))
    arrange("STREAMJOIN_ARRANGE.KEY_TYPE", "MAP")("id MAP<INT, INT>", id)
    arrange("STREAMJOIN_ARRANGE.KEY_TYPE", "MAP")("id STRUCT<m: MAP<INT, INT>>", id)
    val texts =
      MemoryStream[String](Encoders.STRING, spark).toDF().selectExpr("value COLLATE UTF8_LCASE AS id")
    rejected("STREAMJOIN_ARRANGE.KEY_TYPE")(
      Arrangements.arrange(texts, newFolder(), Seq(Seq("id")), None, None, None)
    )
    arrange("STREAMJOIN_ARRANGE.OPERATION_TYPE", "op")("id INT, op INT", id, op = Some("op"))
    arrange("STREAMJOIN_ARRANGE.UNKNOWN_COLUMN", "op")("id INT", id, op = Some("op"))
    arrange("STREAMJOIN_ARRANGE.DIFF_TYPE", "d")("id INT, d DOUBLE", id, diff = Some("d"))
    arrange("STREAMJOIN_ARRANGE.OP_WITH_DIFF", "exclude")(
      "id INT, d INT, op STRING",
      id,
      Some("op"),
      Some("d")
    )
    arrange("STREAMJOIN_ARRANGE.UNKNOWN_COLUMN", "t")("id INT, op STRING", id, Some("op"), time = Some("t"))
    arrange("STREAMJOIN_ARRANGE.TIME_TYPE", "time=")(
      "id INT, op STRING, t MAP<INT, INT>",
      id,
      Some("op"),
      time = Some("t")
    )
    arrange("STREAMJOIN_ARRANGE.UNKNOWN_COLUMN", "op")("id INT, op STRING", Seq(Seq("op")), Some("op"))
    rejected("STREAMJOIN_NOT_A_STREAM.ARRANGE")(
      Arrangements.arrange(spark.range(3).toDF(), newFolder(), Seq(Seq("id")), None, None, None)
    )
    rejected("STREAMJOIN_NO_ARRANGEMENTS_FOLDER")(
      Arrangements.arrange(
        MemoryStream[Int](Encoders.scalaInt, spark).toDF(),
        "x",
        Seq(Seq("value")),
        None,
        None,
        None
      )
    )
  }

  test("a delta join rejects unsupported conditions, outputs, keys and options") {
    val it = orders()
    during(it)(it.feed(Row(1, 1, "i")))
    def join(on: String, select: String*) = deltaJoin(Seq("a" -> it, "b" -> it), on, select).start()
    rejected("STREAMJOIN_DELTA_CONDITION")(join("a.id > 1"))
    rejected("STREAMJOIN_DELTA_CONDITION")(join("a.id > b.id"))
    rejected("STREAMJOIN_DELTA.NOT_PLAIN")(join("a.id = b.id AND rand() > 0.5"))
    rejected("STREAMJOIN_DELTA.OPERATOR")(join("a.id = b.id", "max(a.id)"))
    rejected("STREAMJOIN_DELTA.ONE_INPUT")(deltaJoin(Seq("a" -> it), "a.id = 1").start())
    val maps = maintainer("id INT, m MAP<INT, INT>", Seq(Seq("id")))
    during(maps)(())
    rejected("STREAMJOIN_DELTA.COLUMN_TYPE")(deltaJoin(Seq("a" -> it, "b" -> maps), "a.id = b.id").start())
    val lone = maintainer("id INT, k INT", Seq(Seq("id")))
    during(lone)(lone.feed(Row(1, 1)))
    val said = rejected("STREAMJOIN_DELTA_INDEX")(
      deltaJoin(Seq("a" -> it, "lone" -> lone), "a.id = lone.k").start()
    )
    assert(said.contains("lone"))
    assert(said.contains("[k]"))
    rejected("STREAMJOIN_OPTION")(
      deltaJoin(Seq("a" -> it, "b" -> it), "a.id = b.id", options = Map("maxVersionsPerTrigger" -> "0"))
        .start()
        .settle()
    )
  }

  test("a BIGINT key cannot be looked up by a DOUBLE, which may be rounded") {
    val whole = maintainer("k BIGINT", Seq(Seq("k")))
    val broken = maintainer("k DOUBLE", Seq(Seq("k")))
    during(whole, broken)(())
    rejected("STREAMJOIN_DELTA_CONDITION")(deltaJoin(Seq("a" -> whole, "b" -> broken), "a.k = b.k").start())
  }

  test("current_timestamp() is rejected in a condition, as a row could enter and never leave") {
    val it = orders()
    during(it)(it.feed(Row(1, 1, "i")))
    rejected("STREAMJOIN_DELTA.NOT_PLAIN")(
      deltaJoin(Seq("a" -> it, "b" -> it), "a.id = b.id AND hour(current_timestamp()) < a.id", Seq("a.id"))
        .start()
    )
  }

  test("_version and _diff cannot be used in a delta join") {
    val it = orders()
    during(it)(it.feed(Row(1, 1, "i")))
    for (
      (select, condition) <- Seq(
        "a._version" -> "STREAMJOIN_DELTA.INPUT_OPTIONS",
        "b._diff" -> "STREAMJOIN_DELTA.INPUT_OPTIONS",
        "a.id AS _diff" -> "STREAMJOIN_DELTA.RESERVED_COLUMN"
      )
    )
      rejected(condition)(deltaJoin(Seq("a" -> it, "b" -> it), "a.id = b.id", Seq(select)).start())
    rejected("STREAMJOIN_DELTA.INPUT_OPTIONS")(
      deltaJoin(Seq("a" -> it, "b" -> it), "a.id = b.id AND b._diff > 0", Seq("a.id")).start()
    )
  }
}
