"""One run of a query that continues from its checkpoint, in a session of any kind, and prints the rows in its sink.

``python handed_over.py <kind> <folder>``: as for every_function.py. The query has a window join on a name, and
reads what has been put into the folder.
"""

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import streamjoin as sj

KIND, FOLDER = sys.argv[1], Path(sys.argv[2])
builder: Any = SparkSession.builder
if KIND == "classic":
    builder = sj.configure(builder.config("spark.ui.enabled", "false").master("local[2]"))
spark: SparkSession = (builder if KIND == "classic" else builder.remote(KIND)).getOrCreate()
spark.conf.set("spark.sql.shuffle.partitions", "2")
spark.conf.set("spark.sql.session.timeZone", "UTC")


def stream(name: str, time: str) -> DataFrame:
    found = spark.readStream.schema(f"id INT, {time} TIMESTAMP").json(str(FOLDER / name))
    return sj.impose_order(found, time, "1 second")


joined = sj.window_join(stream("o", "t"), sj.idle_after(stream("d", "u"), "1 day"), "id", "left", following="1 hour")
writer = joined.select("id", "t", "u", "rowtime").writeStream.format("json").trigger(availableNow=True)
query = writer.option("checkpointLocation", str(FOLDER / "checkpoint")).start(str(FOLDER / "out"))
query.awaitTermination()
rows = spark.read.schema("id INT, t TIMESTAMP, u TIMESTAMP").json(str(FOLDER / "out")).collect()
print(sorted((row.id, row.u is not None) for row in rows))
spark.stop()
