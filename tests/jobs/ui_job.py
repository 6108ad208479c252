"""A left outer join with Spark's web page, batch after batch, until the standard input ends.

It prints the page's address and the query's id.
"""

import sys

from job import quiet_session
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

# A page that does not treat it as text gets another title.
NAME = "<script>document.title = 'taken'</script>"


def main() -> None:
    """Run the query."""
    spark = quiet_session({"spark.ui.enabled": "true", "spark.ui.port": "0"})
    joined = stream(spark, "orders").join(
        stream(spark, "deliveries"),
        F.expr(
            "orders.value = deliveries.value"
            " AND deliveries.timestamp BETWEEN orders.timestamp AND orders.timestamp + INTERVAL 1 HOUR"
        ),
        "left",
    )
    query = joined.writeStream.format("noop").queryName(NAME).start()
    print(spark.sparkContext.uiWebUrl, query.id, flush=True)
    sys.stdin.read()
    query.stop()


def stream(spark: SparkSession, name: str) -> DataFrame:
    """Return ten rows each second."""
    rows = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
    return rows.withWatermark("timestamp", "0 seconds").alias(name)


if __name__ == "__main__":
    main()
