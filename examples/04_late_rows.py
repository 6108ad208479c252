"""Keep the rows that come too late for a join, and read them.

By default a late row is dropped and counted. Here it also goes to the checkpoint.

    python examples/04_late_rows.py
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession
from pyspark.sql.functions import expr

import streamjoin as sj

# The second files move the watermark of orders to 14:50. Order 2 comes after that.
ARRIVALS = [
    {"orders": "1,2026-01-01 10:00", "deliveries": "1,2026-01-01 10:30"},
    {"orders": "3,2026-01-01 15:00", "deliveries": "3,2026-01-01 15:30"},
    {"orders": "2,2026-01-01 10:05"},
]

spark = sj.configure(
    SparkSession.builder.config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.shuffle.partitions", 2)
    .config("spark.ui.enabled", False)
    .config("spark.ui.showConsoleProgress", False)
    .config("spark.log.level", "ERROR")
).getOrCreate()

spark.conf.set("spark.streamjoin.lateRows", "keep")

work = TemporaryDirectory()
for name in ("orders", "deliveries"):
    Path(work.name, name).mkdir()
orders = (
    spark.readStream.schema("id INT, ordered TIMESTAMP")
    .csv(f"{work.name}/orders")
    .withWatermark("ordered", "10 minutes")
)
deliveries = (
    spark.readStream.schema("order_id INT, delivered TIMESTAMP")
    .csv(f"{work.name}/deliveries")
    .withWatermark("delivered", "10 minutes")
)
on = "id = order_id AND delivered BETWEEN ordered AND ordered + INTERVAL 1 HOUR"
writer = (
    orders.join(deliveries, expr(on))
    .writeStream.format("noop")
    .option("checkpointLocation", f"{work.name}/checkpoint")
    .trigger(availableNow=True)
)

for number, files in enumerate(ARRIVALS):
    for name, row in files.items():
        Path(work.name, name, f"{number}.csv").write_text(row)
    query = writer.start()
    query.awaitTermination()

sj.late_rows(query).select("column", "watermark", "row").show(truncate=False)
spark.stop()
work.cleanup()
