"""Join three streams: orders, their deliveries, and the returns of those deliveries.

It prints the bounds of each join, and the watermark of each of its columns.
"""

from datetime import UTC, datetime

import shop
from pyspark.sql.functions import expr

import streamjoin as sj

spark = shop.session()
on_time = "delivered BETWEEN ordered AND ordered + INTERVAL 1 HOUR"
sent_back = "returned BETWEEN delivered AND delivered + INTERVAL 30 MINUTES"
delivered = shop.orders().join(shop.deliveries(), expr(f"id = order_id AND {on_time}"), "left")
joined = delivered.join(shop.returns(), expr(f"order_id = returned_id AND {sent_back}"), "left")
sj.bounds(joined).show(truncate=False)

query = joined.writeStream.format("memory").queryName("joined").start()
query.processAllAvailable()
query.stop()
# Order 3 is not there yet: returns are behind, and it may still get one.
spark.sql("SELECT id, ordered, delivered, returned FROM joined ORDER BY id").show()
for join in reversed(query.recentProgress[-1].stateOperators):
    for name, value in join.customMetrics.items():
        if name.startswith("watermarkMs."):
            time = datetime.fromtimestamp(value / 1000, UTC)
            print(f"join {join.customMetrics['join']}: {name} is {time:%H:%M}")
spark.stop()
