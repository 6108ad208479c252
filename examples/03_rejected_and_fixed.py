"""Start a join without a time bound, which is rejected, and then the same with one.

Without a bound, every order and every delivery would have to be kept forever.

    python examples/03_rejected_and_fixed.py
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr

import streamjoin as sj

ORDERS = "1,2026-01-01 10:00\n2,2026-01-01 10:05\n"
DELIVERIES = "1,2026-01-01 10:40\n2,2026-01-01 11:30\n"

spark = sj.configure(
    SparkSession.builder.config("spark.sql.shuffle.partitions", 2)
    .config("spark.ui.enabled", False)
    .config("spark.ui.showConsoleProgress", False)
    .config("spark.log.level", "ERROR")
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

condition = expr("id = order_id")
try:
    orders.join(deliveries, condition).writeStream.format("noop").start()
except AnalysisException as error:
    print(f"Refused with {error.getCondition()}:\n\n{error}\n")

condition &= expr("delivered BETWEEN ordered AND ordered + INTERVAL 1 HOUR")
joined = orders.join(deliveries, condition)
query = joined.writeStream.format("memory").queryName("joined").start()
query.processAllAvailable()
query.stop()

spark.table("joined").show()
spark.stop()
work.cleanup()
