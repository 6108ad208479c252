package org.apache.spark.sql.streamjoin.changes

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.lit
import org.apache.spark.sql.streamjoin.JoinTest.at
import org.apache.spark.sql.streamjoin.arrangement.maintain.Arrangements
import org.apache.spark.sql.streamjoin.arrangement.source.ArrangementState
import org.apache.spark.sql.streamjoin.{ArrangementTest, SparkTest}
import org.apache.spark.sql.{DataFrame, Row}

/** Which of several changes of a key is the last, where they have no time of their own. */
class ChangeOrderSuite extends AnyFunSuite with ArrangementTest {
  override protected def settings: Map[String, String] =
    super.settings + ("spark.sql.shuffle.partitions" -> "1")

  private def count(it: ArrangementTest.Maintainer, name: String): Long =
    it.folder.manifest(it.folder.newest).counts.getOrElse(name, 0L)

  private def flat(time: Option[String] = None, order: Option[String] = None) =
    maintainer(
      "id INT, v STRING, lsn LONG, at LONG, op STRING",
      Seq(Seq("id")),
      Some("op"),
      None,
      time,
      order
    )

  private def change(id: Int, v: String, op: String, lsn: Any = null, at: Any = null) =
    Row(id, v, lsn, at, op)

  test("different changes of a key in one batch fail without an order, with order= they do not") {
    for (second <- Seq(change(1, "z", "update"), change(1, null, "delete"))) {
      val it = flat()
      during(it) {
        it.feed(change(1, "old", "insert"))
        val message = rejected("STREAMJOIN_CHANGE_ORDER")(it.feed(change(1, "a", "insert"), second))
        assert(message.contains("id = 1") && message.contains("order="))
      }
      assert(rowsOf(it.root) == Seq("1 old - -"), "nothing of the batch was committed")
    }
    val it = flat(order = Some("lsn"))
    during(it) {
      it.feed(
        change(1, "z", "update", 1L),
        change(1, "a", "update", 2L),
        change(2, "b", "insert", 3L),
        change(2, null, "delete", 4L)
      )
      assert(rowsOf(it.root) == Seq("1 a 2 -"))
      it.feed(change(1, "late", "update", 1L), change(2, "late", "update", 3L))
      assert(rowsOf(it.root) == Seq("1 a 2 -"), "a change that is earlier in the log does not count")
    }
  }

  test("the same change twice, and the rows before and after an update, need no order") {
    val it = flat()
    during(it) {
      it.feed(change(1, "a", "insert"), change(1, "a", "insert"), change(2, "b", "insert"))
      it.feed(change(1, "a", "update_preimage"), change(1, "b", "update_postimage"), change(2, null, "d"))
      assert(rowsOf(it.root) == Seq("1 b - -"))
    }
  }

  test("a key that is taken and left in one batch fails in an envelope without an order") {
    val row = "STRUCT<id: INT, v: STRING>"
    val it = maintainer(s"before $row, after $row, op STRING", Seq(Seq("id")), op = Some("op"))
    during(it) {
      it.feed(Row(null, Row(1, "a"), "c"))
      rejected("STREAMJOIN_CHANGE_ORDER")(
        it.feed(Row(Row(1, "a"), Row(2, "a"), "u"), Row(Row(2, "a"), Row(3, "a"), "u"))
      )
    }
  }

  private def kafka(
      shape: DataFrame => DataFrame,
      time: Option[String] = None,
      order: Option[String] = None
  ) = {
    val root = newFolder("arrangement")
    new ArrangementTest.Maintainer(
      spark,
      "partition INT, offset LONG, id INT, v STRING, at LONG, op STRING",
      root,
      newFolder()
    )(df =>
      Arrangements.arrange(
        shape(ChangeCases.ofKafka(df)),
        root,
        Seq(Seq("id")),
        Some("op"),
        None,
        time,
        order
      )
    )
  }

  private def message(offset: Long, id: Int, v: String, op: String, at: Any = null) =
    Row(0, offset, id, v, at, op)

  test("the order of Kafka counts where only projections and filters lie between") {
    val log = Seq(
      message(2, 1, "a", "u"),
      message(1, 1, "z", "c"),
      message(4, 2, null, "d"),
      message(3, 2, "b", "c"),
      message(9, 3, "c", "x")
    )
    def inSql(text: String)(df: DataFrame) = {
      df.createOrReplaceTempView("topic")
      spark.sql("CREATE OR REPLACE TEMPORARY VIEW topic_view AS SELECT * FROM topic WHERE op <> 'x'")
      spark.sql(text)
    }
    for (
      shape <- Seq[DataFrame => DataFrame](
        _.where("op <> 'x'").select("id", "v", "op").where("id > 0"),
        inSql("SELECT id, v, op FROM topic_view AS t WHERE id > 0"),
        inSql("WITH t AS (SELECT id, v, op FROM topic_view), u AS (SELECT * FROM t) SELECT * FROM u")
      )
    ) {
      val it = kafka(shape)
      during(it) {
        it.feed(log: _*)
        assert(rowsOf(it.root) == Seq("1 a"))
        assert(count(it, "deletesOfUnknownKeys") == 0)
      }
    }
    val deduplicated = kafka(_.select("id", "v", "op").dropDuplicates())
    during(deduplicated)(rejected("STREAMJOIN_CHANGE_ORDER")(deduplicated.feed(log.init: _*)))
  }

  test("changes of equal time follow the order of Kafka") {
    val it = kafka(_.select("id", "v", "at", "op"), Some("at"))
    during(it) {
      it.feed(message(1, 1, "z", "c", 5L), message(2, 1, "a", "u", 5L), message(3, 2, "b", "c", 5L))
      it.feed(message(4, 2, "y", "u", 6L), message(5, 2, null, "d", 6L), message(6, 1, "old", "u", 4L))
      assert(rowsOf(it.root) == Seq("1 a 5"))
    }
  }

  test("a delete with its key alone has the time of the row that it removes, and it is remembered") {
    val it = flat(time = Some("at"))
    during(it) {
      it.feed(change(1, "a", "insert", at = 5L), change(2, "b", "insert", at = 5L))
      it.feed(change(1, null, "delete"), change(3, null, "delete"))
      assert(rowsOf(it.root) == Seq("2 b - 5"))
      assert(count(it, "deletesOfUnknownKeys") == 1)
      it.feed(change(1, "older", "update", at = 4L), change(2, "null is lowest", "update"))
      assert(rowsOf(it.root) == Seq("2 b - 5"))
      it.feed(change(1, null, "delete"))
      it.feed(change(1, "older", "update", at = 4L))
      assert(rowsOf(it.root) == Seq("2 b - 5"), "a second delete keeps the time of the first")
      it.feed(change(1, "again", "insert", at = 6L))
      assert(rowsOf(it.root) == Seq("1 again - 6", "2 b - 5"))
      rejected("STREAMJOIN_CHANGE_ORDER")(
        it.feed(change(1, "c", "update", at = 7L), change(1, null, "delete"))
      )
    }
  }

  test("a delete with its key alone follows the rows before it in the log") {
    val it = flat(time = Some("at"), order = Some("lsn"))
    during(it) {
      it.feed(
        change(1, "a", "insert", 1L, 5L),
        change(1, null, "delete", 2L),
        change(2, "b", "insert", 1L, 5L),
        change(2, null, "delete", 2L),
        change(2, "c", "insert", 3L, 6L)
      )
      assert(rowsOf(it.root) == Seq("2 c 3 6"))
      it.feed(change(1, "older", "update", 3L, 4L), change(2, null, "delete", 2L))
      assert(rowsOf(it.root) == Seq("2 c 3 6"))
    }
    val ofEnvelope = maintainer(
      "before STRUCT<id: INT>, after STRUCT<id: INT, at: LONG>, op STRING, ts_ms LONG",
      Seq(Seq("id")),
      op = Some("op"),
      time = Some("at")
    )
    during(ofEnvelope) {
      ofEnvelope.feed(Row(null, Row(1, 5L), "c", 7L))
      ofEnvelope.feed(Row(Row(1), null, "d", 8L))
      assert(rowsOf(ofEnvelope.root).isEmpty)
    }
  }

  test("a delete with its key alone has the order of the row that it removes, too") {
    val it = flat(time = Some("at"), order = Some("lsn"))
    during(it) {
      it.feed(change(1, "a", "insert", 3L, 5L), change(2, "b", "insert", 3L, 5L))
      it.feed(change(1, null, "delete"), change(2, null, "delete", at = 5L))
      assert(rowsOf(it.root).isEmpty)
      it.feed(change(1, "older", "update", 2L, 5L), change(2, "older", "update", 2L, 5L))
      assert(rowsOf(it.root).isEmpty, "time and order are remembered")
      it.feed(change(1, "again", "insert", 4L, 5L), change(2, null, "delete"))
      assert(rowsOf(it.root) == Seq("1 again 4 5"))
      rejected("STREAMJOIN_CHANGE_ORDER")(
        it.feed(change(1, "c", "update", 5L, 6L), change(1, null, "delete"))
      )
    }
    val byOrder = flat(order = Some("lsn"))
    during(byOrder) {
      byOrder.feed(change(1, "a", "insert", 3L))
      byOrder.feed(change(1, null, "delete"))
      byOrder.feed(change(1, "older", "update", 2L))
      assert(rowsOf(byOrder.root).isEmpty)
    }
    // In a topic, the position decides where the delete has no order.
    val inTopic = kafka(_.select("id", "v", "at", "op"), Some("at"), Some("v"))
    during(inTopic) {
      inTopic.feed(
        message(1, 1, "a", "c", 5L),
        message(2, 1, null, "d"),
        message(3, 2, null, "d"),
        message(4, 2, "b", "c", 5L)
      )
      assert(rowsOf(inTopic.root) == Seq("2 b 5"))
    }
  }

  test("an outdated delete with its key alone hides no other change of its batch") {
    val it = flat(time = Some("at"), order = Some("lsn"))
    during(it) {
      it.feed(change(1, "a", "insert", 5L, 8L))
      it.feed(change(1, null, "delete", 2L), change(1, "b", "update", 9L, 10L))
      assert(rowsOf(it.root) == Seq("1 b 9 10"))
      assert(count(it, "olderChanges") == 1)
    }
  }

  test("a row that is deleted and added again at one time follows the order of Kafka") {
    val it = kafka(_.select("id", "v", "at", "op"), Some("at"))
    during(it) {
      it.feed(message(1, 1, "a", "c", 5L), message(2, 2, "a", "c", 5L))
      it.feed(
        message(3, 1, null, "d"),
        message(4, 1, "b", "c", 5L),
        message(5, 2, "b", "u", 5L),
        message(6, 2, null, "d"),
        message(7, 3, "a", "c", 5L),
        message(8, 3, null, "d"),
        message(9, 3, "b", "c", 5L)
      )
      assert(rowsOf(it.root) == Seq("1 b 5", "3 b 5"))
    }
  }

  test("a delete with a time and no order follows the order of Kafka among the changes of its time") {
    val it = kafka(_.select("id", "v", "at", "op"), Some("at"), Some("v"))
    during(it) {
      it.feed(
        message(1, 1, "b", "c", 5L),
        message(2, 1, null, "d", 5L),
        message(3, 2, null, "d", 5L),
        message(4, 2, "b", "c", 5L),
        message(5, 3, "a", "c", 5L),
        message(6, 3, null, "d", 5L),
        message(7, 3, "b", "u", 6L)
      )
      assert(rowsOf(it.root) == Seq("2 b 5", "3 b 6"))
      it.feed(message(8, 1, "a", "u", 5L))
      assert(rowsOf(it.root) == Seq("2 b 5", "3 b 6"), "the delete has the order of the row before it")
    }
    val elsewhere = flat(time = Some("at"), order = Some("lsn"))
    during(elsewhere) {
      elsewhere.feed(
        change(1, "a", "insert", 1L, 5L),
        change(1, null, "delete", at = 6L),
        change(2, null, "delete", at = 5L),
        change(2, "a", "insert", 2L, 6L)
      )
      assert(rowsOf(elsewhere.root) == Seq("2 a 2 6"), "their times differ")
      rejected("STREAMJOIN_CHANGE_ORDER")(
        elsewhere.feed(change(3, "a", "insert", 3L, 7L), change(3, null, "delete", at = 7L))
      )
    }
  }

  test("the row's own time is after.<name> where the envelope has one of that name") {
    val row = "STRUCT<id: INT, ts_ms: LONG>"
    def log(time: String) =
      maintainer(
        s"before $row, after $row, op STRING, ts_ms LONG",
        Seq(Seq("id")),
        op = Some("op"),
        time = Some(time)
      )
    val (envelope, own) = (log("ts_ms"), log("after.ts_ms"))
    for ((it, rows) <- Seq(envelope -> Seq("1 9 2"), own -> Seq("1 10"))) during(it) {
      it.feed(Row(null, Row(1, 10L), "c", 1L))
      it.feed(Row(Row(1, 10L), Row(1, 9L), "u", 2L))
      assert(rowsOf(it.root) == rows)
    }
    assert(
      spark.read.format("streamjoin").load(envelope.root).columns.toSeq == Seq(
        "id",
        "ts_ms",
        "_envelope_ts_ms"
      )
    )
  }

  test("a message that was not read fails the query, a tombstone does not") {
    val row = "STRUCT<id: INT, v: STRING>"
    val it = maintainer(
      s"before $row, after $row, op STRING, payload STRUCT<op: STRING>, offset LONG",
      Seq(Seq("id")),
      op = Some("op")
    )
    during(it) {
      it.feed(Row(null, null, null, null, 1L))
      assert(count(it, "tombstones") == 1)
      val message = rejected("STREAMJOIN_UNREADABLE_CHANGE")(it.feed(Row(null, null, null, Row("c"), 2L)))
      assert(message.contains("payload"))
    }
    val ofFlat =
      maintainer("id INT, v STRING, op STRING, _corrupt_record STRING", Seq(Seq("id")), op = Some("op"))
    during(ofFlat) {
      ofFlat.feed(Row(1, "a", "c", null), Row(null, null, null, null))
      assert(count(ofFlat, "tombstones") == 1)
      rejected("STREAMJOIN_UNREADABLE_CHANGE")(ofFlat.feed(Row(null, null, null, "{")))
    }
  }

  test("hundreds of messages that say nothing, and no other, are a hint") {
    val row = "STRUCT<id: INT, v: STRING>"
    val it = maintainer(s"before $row, after $row, op STRING", Seq(Seq("id")), op = Some("op"))
    def hints = ArrangementState.of(it.folder).hints(0, 0)
    during(it) {
      it.feed(Seq.fill(199)(Row(null, null, null)): _*)
      assert(hints.isEmpty)
      it.feed(Row(null, null, null))
      assert(hints.exists(_.contains("payload")))
      it.feed(Row(null, Row(1, "a"), "c"))
      assert(hints.isEmpty)
    }
  }

  test("a value that was not sent, of a column that cannot be null, fails naming it") {
    val row = "STRUCT<id: INT, v: STRING NOT NULL>"
    val it = maintainer(s"before $row, after $row, op STRING", Seq(Seq("id")), op = Some("op"))
    during(it) {
      it.feed(Row(null, Row(1, "a"), "c"))
      it.feed(Row(null, Row(1, ChangeCases.NotSent), "u"))
      assert(rowsOf(it.root) == Seq("1 a"))
      val message =
        rejected("STREAMJOIN_UNAVAILABLE_VALUE")(it.feed(Row(null, Row(2, ChangeCases.NotSent), "u")))
      assert(message.contains(" v,"))
    }
  }

  test("bytes and arrays that were not sent are kept; unavailable=None takes values as sent") {
    val bytes = ChangeCases.NotSent.getBytes
    val schema = "id INT, b BINARY, l ARRAY<STRING>, op STRING"
    val (old, sent) = (Array[Byte](7), Row(1, bytes, Seq(ChangeCases.NotSent), "u"))
    for (
      (unavailable, expected) <- Seq(Some(ChangeCases.NotSent) -> "07 [x]", None -> s"${bytes.length} bytes")
    ) {
      val root = newFolder("arrangement")
      val it = new ArrangementTest.Maintainer(spark, schema, root, newFolder())(
        Arrangements.arrange(_, root, Seq(Seq("id")), Some("op"), None, None, unavailable = unavailable)
      )
      during(it) {
        it.feed(Row(1, old, Seq("x"), "c"))
        it.feed(sent)
        val found = spark.read.format("streamjoin").load(root).selectExpr("hex(b)", "l", "length(b)").head()
        if (unavailable.isDefined)
          assert(s"${found.getString(0)} [${found.getSeq[String](1).mkString}]" == expected)
        else assert(s"${found.getInt(2)} bytes" == expected)
      }
    }
  }

  test("arrays of numbers and of UUIDs, and maps, that were not sent are kept") {
    val text = ChangeCases.NotSent
    val bytes = text.getBytes.toSeq
    val it = maintainer(
      "id INT, i ARRAY<INT>, l ARRAY<LONG>, u ARRAY<STRING>, m MAP<STRING, STRING>, h STRING, op STRING",
      Seq(Seq("id")),
      op = Some("op")
    )
    def row(i: Seq[Int], u: String, m: Map[String, String], h: String, op: String) =
      Row(1, i, i.map(_.toLong), Seq(u), m, h, op)
    during(it) {
      it.feed(row(Seq(7, 8), "u", Map("k" -> "v"), "{}", "c"))
      val uuid = java.util.UUID.nameUUIDFromBytes(bytes.toArray).toString
      it.feed(row(bytes.map(_.toInt), uuid, Map(text -> text), s"""{"$text":"$text"}""", "u"))
      def found =
        spark.read.format("streamjoin").load(it.root).selectExpr("to_json(struct(i, l, u, m, h))").head()
      assert(found.getString(0) == """{"i":[7,8],"l":[7,8],"u":["u"],"m":{"k":"v"},"h":"{}"}""")
      it.feed(row(bytes.map(_.toInt).take(3), "w", Map(text -> "w"), "[]", "u"))
      assert(
        found.getString(0) == s"""{"i":[95,95,100],"l":[95,95,100],"u":["w"],"m":{"$text":"w"},"h":"[]"}"""
      )
    }
  }

  test("equal maps are equal, whatever the order of their entries") {
    val it =
      maintainer("id INT, m MAP<STRING, ARRAY<MAP<INT, STRING>>>, n INT", Seq(Seq("id")), diff = Some("n"))
    def row(keys: Seq[String], n: Int) =
      Row(1, scala.collection.immutable.ListMap(keys.map(k => k -> Seq(Map(2 -> k, 1 -> "x"), null)): _*), n)
    during(it) {
      it.feed(row(Seq("b", "a"), 1), row(Seq("a", "b"), 1))
      it.feed(row(Seq("a", "b"), -1))
      assert(rowsOf(it.root).size == 1)
      it.feed(row(Seq("b", "a"), -1))
      assert(rowsOf(it.root).isEmpty)
      assert(it.folder.manifest(it.folder.newest).counts("rows") == 0)
    }
  }

  test("a map that an older build stored in another order is found") {
    val (root, checkpoint, schema) = (newFolder("arrangement"), newFolder(), "id INT, m MAP<STRING, INT>")
    def unsorted = scala.collection.immutable.ListMap("b" -> 1, "a" -> 2)
    val old = new ArrangementTest.Maintainer(spark, schema, root, checkpoint)(
      Arrangements.arrange(_, root, Seq(Seq("id")), None, None, None)
    )
    during(old)(old.feed(Row(1, unsorted), Row(2, unsorted)))
    val meta = java.nio.file.Path.of(root, "meta.json")
    val text = java.nio.file.Files.readString(meta)
    SparkTest.overwrite(meta, text.replace("\"append\"", "\"updates\""))
    forgetIndexes()
    val now = new ArrangementTest.Maintainer(spark, s"$schema, n INT", root, checkpoint)(
      Arrangements.arrange(_, root, Seq(Seq("id")), None, Some("n"), None)
    )
    now.stream.addData(Row(0, unsorted, 0))
    during(now) {
      now.feed(Row(1, Map("a" -> 2, "b" -> 1), -1), Row(2, Map("a" -> 2, "b" -> 1), 1))
      val rows = spark.read.format("streamjoin").load(root).collect()
      assert(rows.map(_.getInt(0)).toSeq == Seq(2, 2))
      assert(now.folder.manifest(now.folder.newest).counts("rows") == 2)
    }
  }

  test("streams whose rows are taken back are no input of a join by time") {
    val changelog = maintainer("id INT, t TIMESTAMP, op STRING", Seq(Seq("id")), op = Some("op"))
    val appended = maintainer("id INT, t TIMESTAMP", Seq(Seq("id")))
    changelog.start()
    appended.start()
    try {
      changelog.feed(Row(1, at("10:00"), "insert"))
      appended.feed(Row(1, at("10:00")))
      def changes(it: ArrangementTest.Maintainer) = spark.readStream.format("streamjoin").load(it.root)
      def marked(df: DataFrame) = df.withWatermark("t", "0 seconds")
      val plain = marked(changes(appended)).select("id", "t").as("p")
      val retracting = marked(changes(changelog)).select("id", "t").as("r")
      def start(df: DataFrame) =
        df.writeStream.format("noop").option("checkpointLocation", newFolder()).start().stop()
      import org.apache.spark.sql.functions.expr
      import streamjoin.StreamJoin
      def interval(l: DataFrame, r: DataFrame) =
        l.as("l").join(r.as("r"), expr("l.id = r.id AND l.t BETWEEN r.t AND r.t + INTERVAL 1 HOUR"))
      def asof(l: DataFrame, r: DataFrame) =
        StreamJoin.asOf(l.toDF("a", "at"), r.toDF("b", "bt")).on(expr("a = b")).toDF()
      def window(l: DataFrame, r: DataFrame) =
        StreamJoin.window(l.toDF("a", "at"), r.toDF("b", "bt")).on(expr("a = b")).following("1 minute").toDF()
      def versions(l: DataFrame, r: DataFrame) =
        StreamJoin
          .temporal(l.toDF("a", "at"), StreamJoin.versions(r).key("id").time("t"))
          .on(expr("a = id"))
          .toDF()
      for (join <- Seq[(DataFrame, DataFrame) => DataFrame](interval, asof, window, versions)) {
        start(join(plain, plain))
        val left = rejected("STREAMJOIN_RETRACTIONS.LEFT")(start(join(retracting, plain)))
        assert(left.contains("left input") && left.contains("sj.delta_join") && left.contains("_diff > 0"))
        val right = rejected("STREAMJOIN_RETRACTIONS.RIGHT")(start(join(plain, retracting)))
        assert(right.contains("right input") && right.contains("sj.table") && right.contains("op="))
      }
      // Nothing has expired yet.
      val expiring = maintainer(
        "id INT, t TIMESTAMP",
        Seq(Seq("id")),
        time = Some("t"),
        ttl = Some("100000 days")
      )
      during(expiring) {
        for (_ <- 1 to 2) {
          val input = marked(changes(expiring)).select("id", "t")
          rejected("STREAMJOIN_RETRACTIONS.RIGHT")(start(interval(plain, input)))
          expiring.feed(Row(1, at("10:00")))
        }
      }
      // Wherever the changes come from.
      changes(changelog).createOrReplaceTempView("retracting_changes")
      for (
        input <- Seq(
          "WITH c AS (SELECT id, t FROM retracting_changes), r AS (SELECT * FROM c WHERE id > 0) SELECT * FROM r",
          "SELECT id, t FROM retracting_changes UNION ALL SELECT id, t FROM retracting_changes WHERE _diff > 0"
        )
      ) rejected("STREAMJOIN_RETRACTIONS.RIGHT")(start(interval(plain, marked(spark.sql(input)))))
      val ofUnion = spark.sql(
        "WITH u AS (SELECT id, t, 1L AS d FROM retracting_changes WHERE _diff = 1 UNION ALL " +
          "SELECT id, t, _diff FROM retracting_changes) SELECT id, t FROM u WHERE d > 0"
      )
      start(interval(plain, marked(ofUnion)))
      // A view in SQL casts its columns.
      spark.sql("CREATE TEMPORARY VIEW viewed_changes AS SELECT * FROM retracting_changes")
      start(interval(plain, marked(spark.sql("SELECT id, t FROM viewed_changes WHERE _diff > 0"))))
      rejected("STREAMJOIN_RETRACTIONS.RIGHT") {
        start(interval(plain, marked(spark.sql("SELECT id, t FROM viewed_changes"))))
      }
      spark.sql("DROP VIEW viewed_changes")
      marked(changes(appended)).createOrReplaceTempView("plain_changes")
      marked(changes(changelog)).createOrReplaceTempView("retracting_changes")
      def within(condition: String, left: String, right: String) = rejected(condition) {
        start(spark.sql(s"SELECT l.id FROM $left l JOIN $right r WITHIN 1h ON l.id = r.id"))
      }
      assert(
        within("STREAMJOIN_RETRACTIONS.LEFT", "retracting_changes", "plain_changes").contains(
          "without a bound"
        )
      )
      val inSql = within("STREAMJOIN_RETRACTIONS.RIGHT", "plain_changes", "retracting_changes")
      assert(inSql.contains("AS OF NOW()") && inSql.contains("OP(op)") && !inSql.contains("sj."))
      // What is named as the alternative works; a column that is only called _diff is none.
      val added = marked(changes(changelog)).withColumnRenamed("_diff", "d").where("d > 0").select("id", "t")
      start(interval(added, plain))
      start(interval(plain.withColumn("_diff", lit(-1)), plain))
      val withOp = marked(changes(changelog)).selectExpr("id", "t", "if(_diff > 0, 'insert', 'delete') AS op")
      start(
        StreamJoin
          .temporal(plain.toDF("a", "at"), StreamJoin.versions(withOp).key("id").time("t").op("op"))
          .on(expr("a = id"))
          .toDF()
      )
    } finally {
      changelog.stop()
      appended.stop()
    }
  }
}
