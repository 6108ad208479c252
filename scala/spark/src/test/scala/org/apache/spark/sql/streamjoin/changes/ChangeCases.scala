package org.apache.spark.sql.streamjoin.changes

import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.streamjoin.JoinTest.at
import org.apache.spark.sql.{DataFrame, Row}

/**
 * A changelog, and what it says: the table after it, and what was valid when.
 *
 * @param batches
 *   messages; a later message may only follow from those of its batch and earlier ones
 * @param table
 *   rows of the table after the last batch, the columns `id` and `v`
 * @param valid
 *   the value that a key had at a time, `-` if it had none
 * @param counted
 *   figures of the arrangement
 * @param ignored
 *   how many versions are left out
 * @param inTopic
 *   whether Kafka has the messages; their first columns are then partition and offset
 */
final case class ChangeCase(
    name: String,
    schema: String,
    batches: Seq[Seq[Row]],
    table: Seq[String],
    valid: Seq[((Int, String), String)],
    op: String = "op",
    key: String = "id",
    order: Option[String] = None,
    counted: Map[String, Long] = Map.empty,
    ignored: Int = 0,
    inTopic: Boolean = false
) {

  /** The messages without their position. */
  def log(messages: DataFrame): DataFrame =
    if (inTopic) ChangeCases.ofKafka(messages).drop("partition", "offset") else messages
}

/** The table of issue cases: what each message of a changelog says, wherever it is read. */
object ChangeCases {
  private val Fields = "STRUCT<id: INT, v: STRING>"
  private val Envelope = s"before $Fields, after $Fields, op STRING, at TIMESTAMP"
  private val Flat = "id INT, v STRING, op STRING, at TIMESTAMP"
  val NotSent = "__debezium_unavailable_value"

  /** A stream that looks as if it came from Kafka. */
  def ofKafka(df: DataFrame): DataFrame = {
    val classic = df.asInstanceOf[ClassicDataset[Row]]
    val plan = classic.queryExecution.analyzed.transform { case relation: StreamingRelationV2 =>
      relation.copy(sourceName = "kafka")
    }
    ClassicDataset.ofRows(classic.sparkSession, plan)
  }

  private def row(id: Any, v: String) = Row(id, v)
  private def c(time: String, after: Row) = Row(null, after, "c", at(time))
  private def u(time: String, before: Row, after: Row) = Row(before, after, "u", at(time))
  private def d(time: String, before: Row) = Row(before, null, "d", at(time))
  private def flat(op: String, id: Any, v: String, time: String) =
    Row(id, v, op, if (time == null) null else at(time))
  private def more(row: Row, column: Any) = Row.fromSeq(row.toSeq :+ column)

  private val a = row(1, "a")

  private val moved = Seq(
    ChangeCase(
      "an update that moves its key ends the old one and begins the new one",
      Envelope,
      Seq(Seq(c("10:00", a)), Seq(u("10:10", a, row(2, "b")))),
      Seq("2 b"),
      Seq((1, "10:05") -> "a", (2, "10:05") -> "-", (1, "10:15") -> "-", (2, "10:15") -> "b")
    ),
    ChangeCase(
      "a key moves away and back in one batch",
      Envelope,
      Seq(Seq(c("10:00", a)), Seq(u("10:10", a, row(2, "b")), u("10:20", row(2, "b"), row(1, "c")))),
      Seq("1 c"),
      Seq(
        (1, "10:05") -> "a",
        (1, "10:15") -> "-",
        (2, "10:15") -> "b",
        (1, "10:25") -> "c",
        (2, "10:25") -> "-"
      )
    ),
    ChangeCase(
      "a key moves away and back at one instant: the order decides",
      s"$Envelope, lsn LONG",
      Seq(
        Seq(more(c("10:00", a), 1L)),
        Seq(more(u("10:10", row(2, "b"), row(1, "c")), 3L), more(u("10:10", a, row(2, "b")), 2L))
      ),
      Seq("1 c"),
      Seq((1, "10:05") -> "a", (1, "10:15") -> "c", (2, "10:15") -> "-"),
      order = Some("lsn")
    ),
    ChangeCase(
      "keys are swapped in one transaction",
      s"$Envelope, lsn LONG",
      Seq(
        Seq(more(c("10:00", a), 1L), more(c("10:00", row(2, "b")), 2L)),
        Seq(
          more(u("10:10", a, row(9, "a")), 3L),
          more(u("10:10", row(2, "b"), row(1, "b")), 4L),
          more(u("10:10", row(9, "a"), row(2, "a")), 5L)
        )
      ),
      Seq("1 b", "2 a"),
      Seq((1, "10:05") -> "a", (1, "10:15") -> "b", (2, "10:15") -> "a", (9, "10:15") -> "-"),
      order = Some("lsn")
    ),
    ChangeCase(
      "a preimage ends the old key at its time",
      Flat,
      Seq(
        Seq(flat("insert", 1, "a", "10:00")),
        Seq(flat("update_postimage", 2, "b", "10:10"), flat("update_preimage", 1, "a", "10:10"))
      ),
      Seq("2 b"),
      Seq((1, "10:05") -> "a", (1, "10:15") -> "-", (2, "10:15") -> "b")
    ),
    ChangeCase(
      "a preimage of an unchanged key ends nothing",
      Flat,
      Seq(
        Seq(flat("insert", 1, "a", "10:00")),
        Seq(flat("update_postimage", 1, "b", "10:10"), flat("update_preimage", 1, "a", "10:10"))
      ),
      Seq("1 b"),
      Seq((1, "10:05") -> "a", (1, "10:15") -> "b")
    )
  )

  private val spelled = Seq(
    ChangeCase(
      "before has the key alone",
      s"before STRUCT<id: INT>, after $Fields, op STRING, at TIMESTAMP",
      Seq(
        Seq(c("10:00", a), c("10:00", row(2, "b"))),
        Seq(d("10:10", Row(1)), u("10:10", Row(2), row(3, "c")))
      ),
      Seq("3 c"),
      Seq((1, "10:05") -> "a", (1, "10:15") -> "-", (2, "10:15") -> "-", (3, "10:15") -> "c")
    ),
    ChangeCase(
      "a key in another case",
      "before STRUCT<Id: INT, v: STRING>, after STRUCT<Id: INT, v: STRING>, op STRING, at TIMESTAMP",
      Seq(Seq(c("10:00", a)), Seq(u("10:10", a, row(2, "b")))),
      Seq("2 b"),
      Seq((1, "10:05") -> "a", (1, "10:15") -> "-", (2, "10:15") -> "b"),
      key = "ID"
    ),
    ChangeCase(
      "a nested order",
      s"$Envelope, source STRUCT<lsn: LONG>",
      Seq(Seq(more(d("10:00", a), Row(2L)), more(c("10:00", a), Row(1L)))),
      Nil,
      Seq((1, "10:05") -> "-"),
      order = Some("source.lsn")
    ),
    ChangeCase(
      "a nested order of a flat log",
      s"$Flat, source STRUCT<lsn: LONG>",
      Seq(Seq(more(flat("d", 1, "a", "10:00"), Row(2L)), more(flat("c", 1, "a", "10:00"), Row(1L)))),
      Nil,
      Seq((1, "10:05") -> "-"),
      order = Some("source.lsn")
    ), {
      val fields = "STRUCT<id: INT, v: STRING, op: STRING, at: TIMESTAMP, before: INT, after: INT, lsn: INT>"
      def own(v: String) = Row(1, v, "weld", at("09:00"), 1, 2, 3)
      ChangeCase(
        "columns of the row with the names of the envelope's",
        s"before $fields, after $fields, op STRING, at TIMESTAMP, lsn LONG",
        Seq(
          Seq(more(c("10:00", own("a")), 1L)),
          Seq(more(u("10:10", own("a"), own("c")), 3L), more(u("10:10", own("a"), own("b")), 2L))
        ),
        Seq("1 c"),
        Seq((1, "10:05") -> "a", (1, "10:15") -> "c"),
        order = Some("lsn")
      )
    }
  )

  private val empty = Seq(
    ChangeCase(
      "a tombstone says nothing",
      Envelope,
      Seq(
        Seq(c("10:00", a)),
        Seq(d("10:10", a), Row(null, null, null, null)),
        Seq(Row(null, null, null, null))
      ),
      Nil,
      Seq((1, "10:05") -> "a", (1, "10:15") -> "-"),
      counted = Map("tombstones" -> 2),
      ignored = 2
    ),
    ChangeCase(
      "a flattened tombstone says nothing",
      Flat.replace("op", "__op"),
      Seq(Seq(flat("c", 1, "a", "10:00"), Row(null, null, null, null)), Seq(flat(null, null, null, null))),
      Seq("1 a"),
      Seq((1, "10:05") -> "a"),
      op = "__op",
      counted = Map("tombstones" -> 2),
      ignored = 2
    ),
    ChangeCase(
      "a null in the primary key of an envelope is no key",
      Envelope,
      Seq(
        Seq(c("10:00", row(null, "x")), c("10:00", row(null, "y"))),
        Seq(c("10:10", row(null, "z")), c("10:10", a))
      ),
      Seq("1 a"),
      Seq((1, "10:15") -> "a"),
      counted = Map("rowsWithoutKey" -> 3),
      ignored = 3
    ),
    ChangeCase(
      "a null in the key of a flat log is a value in a table, and matches nothing in a join",
      Flat,
      Seq(Seq(flat("c", null, "x", "10:00")), Seq(flat("u", null, "y", "10:10"))),
      Seq("- y"),
      Nil,
      ignored = 2
    )
  )

  private val notSent = Seq(
    ChangeCase(
      "a value that was not sent is kept",
      Envelope,
      Seq(
        Seq(c("10:00", a)),
        Seq(u("10:10", row(1, null), row(1, NotSent))),
        Seq(u("10:20", row(1, null), row(1, NotSent)), u("10:30", row(1, null), row(1, "b")))
      ),
      Seq("1 b"),
      Seq((1, "10:05") -> "a", (1, "10:15") -> "a", (1, "10:25") -> "a", (1, "10:35") -> "b")
    ),
    ChangeCase(
      "a value that was not sent is kept within a batch",
      Envelope,
      Seq(
        Seq(
          u("10:10", row(1, null), row(1, NotSent)),
          c("10:00", a),
          u("10:20", row(1, null), row(1, NotSent))
        )
      ),
      Seq("1 a"),
      Seq((1, "10:05") -> "a", (1, "10:15") -> "a", (1, "10:25") -> "a")
    ),
    ChangeCase(
      "an update that moves its key takes a value that was not sent from before",
      Envelope,
      Seq(Seq(c("10:00", a)), Seq(u("10:10", a, row(2, NotSent)))),
      Seq("2 a"),
      Seq((1, "10:15") -> "-", (2, "10:15") -> "a")
    ),
    ChangeCase(
      "a value that was not sent is kept where the row before the update is in the log",
      Flat,
      Seq(
        Seq(flat("insert", 1, "a", "10:00")),
        Seq(flat("update_postimage", 1, NotSent, "10:10"), flat("update_preimage", 1, null, "10:10")),
        Seq(flat("update_preimage", 1, null, "10:20"), flat("update_postimage", 1, NotSent, "10:30"))
      ),
      Seq("1 -"),
      Seq((1, "10:05") -> "a", (1, "10:15") -> "a", (1, "10:25") -> "-", (1, "10:35") -> "-")
    ),
    ChangeCase(
      "a value that was not sent is kept within a batch, next to the row before the update",
      Flat,
      Seq(
        Seq(
          flat("insert", 1, "a", "10:00"),
          flat("update_preimage", 1, null, "10:10"),
          flat("update_postimage", 1, NotSent, "10:10")
        )
      ),
      Seq("1 a"),
      Seq((1, "10:05") -> "a", (1, "10:15") -> "a")
    ),
    ChangeCase(
      "without an old value it is null and counted",
      Envelope,
      Seq(Seq(u("10:00", row(1, null), row(1, NotSent)))),
      Seq("1 -"),
      Seq((1, "10:05") -> "-"),
      counted = Map("unavailableValues" -> 1, "updatesOfUnknownKeys" -> 1)
    )
  )

  private def placed(offset: Long, message: Row) = Row.fromSeq(Seq[Any](0, offset) ++ message.toSeq)

  private val inTopic = Seq(
    ChangeCase(
      "changes of equal time follow the order of their topic",
      s"partition INT, offset LONG, $Flat",
      Seq(
        Seq(
          placed(2, flat("u", 1, "y", "10:00")),
          placed(1, flat("c", 1, "z", "10:00")),
          placed(4, flat("d", 2, null, "10:00")),
          placed(3, flat("c", 2, "b", "10:00"))
        ),
        Seq(placed(5, flat("u", 1, "x", "10:00")), placed(6, flat("c", 3, "c", "10:00"))),
        Seq(placed(7, flat("d", 3, null, "10:00")))
      ),
      Seq("1 x"),
      Seq((1, "10:05") -> "x", (2, "10:05") -> "-", (3, "10:05") -> "-"),
      inTopic = true
    ),
    ChangeCase(
      "a key moves away and back at one instant: the order of the topic decides",
      s"partition INT, offset LONG, $Envelope",
      Seq(
        Seq(placed(1, c("10:00", a))),
        Seq(placed(3, u("10:10", row(2, "b"), row(1, "A"))), placed(2, u("10:10", a, row(2, "b"))))
      ),
      Seq("1 A"),
      Seq((1, "10:05") -> "a", (1, "10:15") -> "A", (2, "10:15") -> "-"),
      inTopic = true
    )
  )

  val all: Seq[ChangeCase] = moved ++ spelled ++ empty ++ notSent ++ inTopic
}
