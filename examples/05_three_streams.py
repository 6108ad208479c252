"""Join three streams: orders, their deliveries, and the returns of those deliveries.

It prints the bounds of each join, and the watermark of each of its columns.

    python examples/05_three_streams.py
"""

from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

import streamjoin as sj

ORDERS = "1,2026-01-01 10:00\n2,2026-01-01 14:00\n"
DELIVERIES = "1,2026-01-01 10:40\n2,2026-01-01 14:30\n"
RETURNS = "1,2026-01-01 11:00\n9,2026-01-01 13:00\n"

spark = sj.configure(
    SparkSession.builder.config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.shuffle.partitions", 2)
    .config("spark.ui.enabled", False)
    .config("spark.ui.showConsoleProgress", False)
    .config("spark.log.level", "ERROR")
).getOrCreate()

work = TemporaryDirectory()


def stream(name: str, columns: str, rows: str) -> DataFrame:
    """Return a stream of the rows, with a watermark on their time."""
    folder = Path(work.name, name)
    folder.mkdir()
    (folder / "1.csv").write_text(rows)
    read = spark.readStream.schema(columns).csv(str(folder))
    return read.withWatermark(read.columns[1], "10 minutes").alias(name)


orders = stream("orders", "id INT, ordered TIMESTAMP", ORDERS)
deliveries = stream("deliveries", "order_id INT, delivered TIMESTAMP", DELIVERIES)
returns = stream("returns", "returned_id INT, returned TIMESTAMP", RETURNS)

on_time = "delivered BETWEEN ordered AND ordered + INTERVAL 1 HOUR"
sent_back = "returned BETWEEN delivered AND delivered + INTERVAL 30 MINUTES"
joined = (
    orders.join(deliveries, expr(f"id = order_id AND {on_time}"), "left")
    .join(returns, expr(f"order_id = returned_id AND {sent_back}"), "left")
    .select("id", "ordered", "delivered", "returned")
)
sj.bounds(joined).show(truncate=False)

query = joined.writeStream.format("memory").queryName("joined").start()
query.processAllAvailable()
query.stop()
# Order 2 is not there yet: returns are behind, and it may still get one.
spark.table("joined").show()

assert query.lastProgress
joins = query.lastProgress.stateOperators
for join in sorted(joins, key=lambda join: join.customMetrics["join"]):
    for name, millis in sorted(join.customMetrics.items()):
        if name.startswith("watermarkMs."):
            time = datetime.fromtimestamp(millis / 1000, UTC)
            print(f"join {join.customMetrics['join']}: {name} is {time:%H:%M}")
spark.stop()
work.cleanup()
