"""Run a file of SQL: all statements but the last directly, the last as a streaming query, to its end."""

from pathlib import Path

import shop

spark = shop.session()
spark.conf.set("shop.data", str(shop.DATA))
file = Path(__file__).with_suffix(".sql")
*statements, query = file.read_text().strip().removesuffix(";").split(";\n")
for statement in statements:
    spark.sql(statement)
running = spark.sql(query).writeStream.format("memory").queryName("result").start()
running.processAllAvailable()
running.stop()
spark.sql("SELECT * FROM result ORDER BY ALL").show()
spark.stop()
