package streamjoin;

import java.time.Duration;
import java.util.List;
import java.util.Map;

import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.DataStreamWriter;

/** The API as a Java program calls it. */
final class JavaExamples {
  private JavaExamples() {}

  static Dataset<Row> interval(Dataset<Row> orders, Dataset<Row> deliveries) {
    Dataset<Row> joined = StreamJoin.interval(orders, deliveries)
        .on("order_id", "country")
        .within(Duration.ofHours(-1), Duration.ofHours(1))
        .toDF();
    return joined;
  }

  static Dataset<Row> byList(Dataset<Row> orders, Dataset<Row> deliveries) {
    return StreamJoin.asOf(orders, deliveries).on(List.of("order_id")).tolerance("1 hour").toDF();
  }

  static Dataset<Row> temporal(Dataset<Row> orders, Dataset<Row> changes) {
    VersionedStream versions = StreamJoin.versions(changes).key("order_id");
    return StreamJoin.temporal(orders, versions).on("order_id").toDF();
  }

  static DataStreamWriter<Row> maintain(Dataset<Row> rows, String name) {
    return Arrangement.maintain(rows, name).key("order_id").writeStream();
  }

  static Dataset<Row> table(SparkSession spark, String name) {
    return Arrangement.table(spark, name).toDF();
  }

  static Dataset<Row> changes(SparkSession spark, String name) {
    return Arrangement.forName(spark, name).changes(Map.of("maxVersionsPerTrigger", "1"));
  }

  static Dataset<Row> streams(Dataset<Row> events) {
    Dataset<Row> marked = StreamInputs.imposeOrder(events, "time", Duration.ofSeconds(10));
    return StreamInputs.idleAfter(marked, "30 seconds");
  }
}
