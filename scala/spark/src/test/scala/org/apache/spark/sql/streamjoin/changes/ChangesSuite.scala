package org.apache.spark.sql.streamjoin.changes

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.JoinTest.{at, text}
import org.apache.spark.sql.streamjoin.arrangement.maintain.Arrangements
import org.apache.spark.sql.streamjoin.{ArrangementTest, SparkTest}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{DataFrame, Row}

import streamjoin.StreamJoin

/**
 * What a message of a changelog says is the same wherever it is read ([[ChangeCases]]). In `make
 * test`, arrangements and `sj.versions` have every other case each, and the other spellings a part
 * of them.
 */
class ChangesSuite extends AnyFunSuite with ArrangementTest {
  override protected def settings: Map[String, String] =
    super.settings + ("spark.sql.shuffle.partitions" -> "1")

  SparkTest.part(ChangeCases.all, every = 2, from = 1).foreach { of =>
    test(s"sj.arrange: ${of.name}") {
      val root = newFolder("arrangement")
      val it = new ArrangementTest.Maintainer(spark, of.schema, root, newFolder())(df =>
        Arrangements.arrange(of.log(df), root, Seq(Seq(of.key)), Some(of.op), None, Some("at"), of.order)
      )
      during(it) {
        of.batches.foreach(it.feed(_: _*))
        val rows = spark.read.format("streamjoin").load(it.root).selectExpr("id", "v")
        assert(rows.collect().map(text).toSeq.sorted == of.table)
        val counts = it.folder.manifest(it.folder.newest).counts
        assert(of.counted.forall { case (name, count) => counts.get(name).contains(count) }, counts)
      }
    }
  }

  testAll[ChangeCase](SparkTest.part(ChangeCases.all, every = 2), of => s"sj.versions: ${of.name}")(of =>
    valid(of)(versions(of, None))
  )

  /** In SQL a flat log is known by the name of its operation. */
  private val inSql = ChangeCases.all.filter(of => of.schema.contains("id INT, v STRING") && of.order.isEmpty)

  private val withValid = ChangeCases.all.filter(_.valid.nonEmpty)

  testAll[ChangeCase](SparkTest.part(withValid, every = 16), of => s"by VERSIONS: ${of.name}")(of =>
    valid(of)(declared(of))
  )

  testAll[ChangeCase](SparkTest.part(inSql, every = 6), of => s"in SQL: ${of.name}")(of => valid(of)(sql(of)))

  private val withHistory = SparkTest.part(withValid, every = 16, from = 2)

  testAll[ChangeCase](withHistory, of => s"with history: ${of.name}")(of =>
    valid(of)(versions(of, Some("1 hour")))
  )

  private def versions(of: ChangeCase, history: Option[String])(facts: DataFrame, changes: DataFrame) = {
    val described = StreamJoin.versions(changes).key(of.key).time("at").op(of.op)
    val table = of.order.fold(described)(described.order)
    val join = StreamJoin.temporal(facts, table).on(expr("fact = id")).joinType("left")
    history.fold(join)(join.history).toDF()
  }

  private def declared(of: ChangeCase)(facts: DataFrame, changes: DataFrame) = {
    val (f, c) = (s"facts_declared_${of.hashCode.abs}", s"changes_declared_${of.hashCode.abs}")
    facts.createOrReplaceTempView(f)
    changes.createOrReplaceTempView(c)
    val order = of.order.fold("")(name => s", ORDER($name)")
    val versions = s"VERSIONS(TABLE($c), KEY(${of.key}), TIME(at), OP(${of.op})$order)"
    spark.sql(
      s"SELECT * FROM $f AS f LEFT JOIN $versions FOR SYSTEM_TIME AS OF f.t AS c ON f.fact = c.id"
    )
  }

  private def sql(of: ChangeCase)(facts: DataFrame, changes: DataFrame) = {
    val (f, c) = (s"facts_${of.hashCode.abs}", s"changes_${of.hashCode.abs}")
    facts.createOrReplaceTempView(f)
    changes.withColumnRenamed(of.op, "_change_type").createOrReplaceTempView(c)
    spark.sql(s"SELECT * FROM $f AS f LEFT JOIN $c FOR SYSTEM_TIME AS OF f.t AS c ON f.fact = c.id")
  }

  private def valid(of: ChangeCase)(join: (DataFrame, DataFrame) => DataFrame) = {
    val changes = memory(of.schema)
    val facts = memory("fact INT, t TIMESTAMP")
    val joined =
      join(
        facts.toDF().withWatermark("t", "0 seconds"),
        of.log(changes.toDF()).withWatermark("at", "0 seconds")
      )
    val seen = mutable.ArrayBuffer.empty[Row]
    val query = joined
      .select("fact", "t", "v")
      .writeStream
      .foreachBatch((df: DataFrame, _: Long) => seen.synchronized(seen ++= df.collect()): Unit)
      .option("checkpointLocation", newFolder())
      .start()
    try {
      facts.addData(of.valid.map { case ((id, time), _) => Row(id, at(time)) })
      of.batches.foreach { batch =>
        changes.addData(batch)
        query.processAllAvailable()
      }
      val end = Seq("11:00", "11:01")
      end.foreach { time =>
        facts.addData(Row(-1, at(time)))
        changes.addData(ending(changes.toDF().schema, time))
        query.processAllAvailable()
      }
      val ignored = query.recentProgress
        .flatMap(_.stateOperators)
        .map(_.customMetrics.asScala("ignoredVersions").longValue)
        .sum
      val found = seen.filter(_.getInt(0) >= 0).map(text).toSeq.sorted
      val wanted = of.valid.map { case ((id, time), v) => s"$id $time $v" }.sorted
      assert(found == wanted)
      assert(ignored == of.ignored)
    } finally query.stop()
  }

  /** An insert of another key. */
  private def ending(schema: StructType, time: String): Row = {
    def value(of: StructType): Row = Row.fromSeq(of.map { field =>
      field.name.toLowerCase match {
        case "id" => 99
        case "v" => "end"
        case "op" | "__op" => "c"
        case "at" => at(time)
        case "after" if field.dataType.isInstanceOf[StructType] =>
          value(field.dataType.asInstanceOf[StructType])
        case _ => null
      }
    })
    value(schema)
  }
}
