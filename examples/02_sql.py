"""Write the join in SQL: each order with its delivery, if it arrives within an hour.

Order 2 is delivered too late. The join emits it with nulls once its hour has passed.
"""

import shop

spark = shop.session()
for name in ("orders", "deliveries"):
    stream = spark.readStream.schema("id INT, time TIMESTAMP").csv(f"{shop.DATA}/{name}")
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
