"""Give each order the price that was valid when it was placed, for any order of arrival.

The lamp costs 20 from 08:00 and 25 from 10:00; from 12:00 it is no longer sold.
"""

import shop

import streamjoin as sj

spark = shop.session()
folder = shop.new_folder()
(folder / "prices.csv").write_text("""\
lamp,2026-01-01 08:00,20,insert
lamp,2026-01-01 12:00,,delete
lamp,2026-01-01 10:00,25,update
chair,2026-01-02 08:00,90,insert""")
(folder / "orders.csv").write_text("""\
1,lamp,2026-01-01 10:00
2,lamp,2026-01-01 12:30
3,lamp,2026-01-01 09:59
4,chair,2026-01-02 08:00""")
orders = spark.readStream.schema("id INT, item STRING, ordered TIMESTAMP").csv(str(folder), pathGlobFilter="orders*")
reader = spark.readStream.schema("item STRING, since TIMESTAMP, price INT, op STRING")
changes = reader.csv(str(folder), pathGlobFilter="prices*")

prices = sj.versions(changes.withWatermark("since", "10 minutes"), key="item", time="since", op="op")
joined = sj.temporal_join(orders.withWatermark("ordered", "10 minutes"), prices, "item", "left", as_of="ordered")
query = joined.select("id", "item", "ordered", "price").writeStream.format("memory").queryName("priced").start()
query.processAllAvailable()
query.stop()
# Order 4 still waits: another order of its time, or a price, may come.
spark.table("priced").show()
spark.stop()
