"""Write with foreachBatch so that a batch that runs twice is in the output once.

Each batch has a folder named for its number, which a second run overwrites.

    python examples/06_foreach_batch.py
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

import streamjoin as sj

ORDERS = "1,2026-01-01 10:00\n2,2026-01-01 10:05\n"
DELIVERIES = "1,2026-01-01 10:40\n2,2026-01-01 10:50\n"

spark = sj.configure(
    SparkSession.builder.config("spark.sql.shuffle.partitions", 2)
    .config("spark.ui.enabled", False)
    .config("spark.ui.showConsoleProgress", False)
    .config("spark.log.level", "FATAL")
).getOrCreate()

work = TemporaryDirectory()
for name, rows in {"orders": ORDERS, "deliveries": DELIVERIES}.items():
    Path(work.name, name).mkdir()
    Path(work.name, name, "1.csv").write_text(rows)
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

runs: list[int] = []


def write(batch: DataFrame, batch_id: int) -> None:
    """Write a batch to a folder of its own. The first time, fail after that."""
    batch.persist()  # two actions follow: without this, the join would run twice
    batch.write.mode("overwrite").parquet(f"{work.name}/joined/batch={batch_id}")
    print(f"batch {batch_id}: {batch.count()} rows")
    batch.unpersist()
    runs.append(batch_id)
    if len(runs) == 1:
        raise RuntimeError("as if the driver had died before the commit")


on = "id = order_id AND delivered BETWEEN ordered AND ordered + INTERVAL 1 HOUR"
joined = orders.join(deliveries, expr(on))
writer = joined.writeStream.foreachBatch(write).trigger(availableNow=True)
writer = writer.option("checkpointLocation", f"{work.name}/checkpoint")
try:
    writer.start().awaitTermination()
except StreamingQueryException:
    print("The query failed, and starts again from its checkpoint.")
    writer.start().awaitTermination()

spark.read.parquet(f"{work.name}/joined").orderBy("id").show()
spark.stop()
work.cleanup()
