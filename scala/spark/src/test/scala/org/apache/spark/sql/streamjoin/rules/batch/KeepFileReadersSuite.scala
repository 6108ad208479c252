package org.apache.spark.sql.streamjoin.rules.batch

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.FileSourceScanExec
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.execution.datasources.{FileFormat, PartitionedFile}
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streaming.Trigger
import org.apache.spark.sql.streamjoin.SparkTest
import org.apache.spark.sql.types.StructType

class KeepFileReadersSuite extends AnyFunSuite with SparkTest {
  private def format = FileReaders.keeping(new ParquetFileFormat).get

  private def reader(
      of: FileFormat = format,
      schema: String = "v BIGINT"
  ): PartitionedFile => Iterator[InternalRow] = {
    val columns = StructType.fromDDL(schema)
    of.buildReaderWithPartitionValues(
      spark,
      columns,
      new StructType,
      columns,
      Nil,
      Map(FileFormat.OPTION_RETURNING_BATCH -> "true"),
      spark.sessionState.newHadoopConf()
    )
  }

  test("a scan reads as before until its columns, a setting or Hadoop's settings change") {
    val first = reader()
    assert(reader() eq first)
    assert(reader(schema = "v BIGINT, w BIGINT") ne first)
    withConf("spark.sql.parquet.filterPushdown" -> "false")(assert(reader() ne first))
    val next = reader()
    assert(reader() eq next)
    spark.sparkContext.hadoopConfiguration.set("fs.test.token", "new")
    assert(reader() ne next)
    spark.sparkContext.hadoopConfiguration.unset("fs.test.token")
  }

  test("a format that is not Spark's own makes its readers as it does") {
    assert(FileReaders.keeping(new ParquetFileFormat {}).isEmpty)
    assert(FileReaders.keeping(format).isEmpty)
  }

  private val formats = Seq("parquet", "orc", "json", "csv")

  for (format <- formats) test(s"a join reads each batch of $format files") {
    val (left, right) = (newFolder("left"), newFolder("right"))
    for (file <- 0 until 4) {
      val rows = spark
        .range(file * 10L, file * 10L + 10)
        .selectExpr("id", "timestamp_seconds(id) AS t", "concat('v', id) AS v")
      Seq(left, right).foreach(rows.coalesce(1).write.format(format).mode("append").save(_))
    }
    val schema = "id BIGINT, t TIMESTAMP, v STRING"
    def stream(folder: String): DataFrame = spark.readStream
      .schema(schema)
      .format(format)
      .option("maxFilesPerTrigger", 1)
      .load(folder)
      .withWatermark("t", "100 seconds")
    val joined = stream(left).as("a").join(stream(right).as("b"), expr("a.id = b.id AND a.t = b.t"))
    val query = joined
      .select("a.id", "b.v")
      .writeStream
      .format("memory")
      .queryName(s"rows_of_$format")
      .option("checkpointLocation", newFolder())
      .trigger(Trigger.AvailableNow())
      .start()
    query.awaitTermination()
    val found = spark.table(s"rows_of_$format").collect().map(row => row.getLong(0) -> row.getString(1)).toSet
    assert(found == (0L until 40L).map(id => id -> s"v$id").toSet)
    val execution = query.asInstanceOf[StreamingQueryWrapper].streamingQuery.lastExecution
    val scans = execution.executedPlan.collect { case scan: FileSourceScanExec => scan.relation.fileFormat }
    assert(scans.forall(FileReaders.keeping(_).isEmpty), "they keep their readers")
    assert(query.recentProgress.count(_.numInputRows > 0) == 4)
  }

  test("a query without our operators is left as it is") {
    val folder = newFolder("files")
    spark.range(3).write.mode("append").parquet(folder)
    val scans = spark.read.parquet(folder).queryExecution.executedPlan.collect {
      case scan: FileSourceScanExec => scan.relation.fileFormat.getClass
    }
    assert(scans == Seq(classOf[ParquetFileFormat]))
  }
}
