"""Keep the rows that come too late for a join, and read them.

By default a late row is dropped and counted. Here it also goes to the checkpoint.
"""

from shutil import copytree

import shop
from pyspark.sql.functions import expr

import streamjoin as sj

spark = shop.session()
spark.conf.set("spark.streamjoin.lateRows", "keep")
folder = shop.new_folder()
arrived = copytree(shop.DATA / "orders", folder / "orders")

on = "id = order_id AND delivered BETWEEN ordered AND ordered + INTERVAL 1 HOUR"
joined = shop.orders(arrived).join(shop.deliveries(), expr(on))
writer = joined.writeStream.format("noop").trigger(availableNow=True)
writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
writer.start().awaitTermination()

# The order of 15:00 has moved the watermark of orders to 14:50, so this one is late.
(arrived / "late.csv").write_text("4,2026-01-01 10:05")
query = writer.start()
query.awaitTermination()
sj.late_rows(query).select("column", "watermark", "row").show(truncate=False)
spark.stop()
