"""Write the join in SQL: orders, each with its delivery if that comes within an hour.

Order 2 is delivered too late. It comes out with nulls once its hour has passed.

    python examples/02_sql.py
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

import streamjoin as sj

ORDERS = "1,2026-01-01 10:00\n2,2026-01-01 10:05\n3,2026-01-01 15:00\n"
DELIVERIES = "1,2026-01-01 10:40\n2,2026-01-01 11:30\n3,2026-01-01 15:20\n"

spark = sj.configure(
    SparkSession.builder.config("spark.sql.shuffle.partitions", 2)
    .config("spark.ui.enabled", False)
    .config("spark.ui.showConsoleProgress", False)
    .config("spark.log.level", "ERROR")
).getOrCreate()

work = TemporaryDirectory()
for name, rows in {"orders": ORDERS, "deliveries": DELIVERIES}.items():
    folder = Path(work.name, name)
    folder.mkdir()
    (folder / "1.csv").write_text(rows)
    stream = spark.readStream.schema("id INT, time TIMESTAMP").csv(str(folder))
    stream.createOrReplaceTempView(name)

joined = spark.sql("""
    SELECT o.id, o.time AS ordered, d.time AS delivered
    FROM STREAM orders WATERMARK time DELAY OF INTERVAL 10 MINUTES AS o
    LEFT JOIN STREAM deliveries WATERMARK time DELAY OF INTERVAL 10 MINUTES AS d
      ON o.id = d.id AND d.time BETWEEN o.time AND o.time + INTERVAL 1 HOUR""")
query = joined.writeStream.format("memory").queryName("joined").start()
query.processAllAvailable()
query.stop()

spark.sql("SELECT * FROM joined ORDER BY id").show()
spark.stop()
work.cleanup()
