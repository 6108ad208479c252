"""Join two live streams: ads, and the clicks that follow within ten seconds.

Every third ad is clicked. The program stops after a few batches.
"""

from pyspark.sql import SparkSession
from pyspark.sql.functions import expr

import streamjoin as sj

builder = SparkSession.builder.config("spark.sql.shuffle.partitions", 2)
builder = builder.config("spark.ui.showConsoleProgress", False).config("spark.log.level", "ERROR")
spark = sj.configure(builder).getOrCreate()

rate = spark.readStream.format("rate").option("rowsPerSecond", 10)
ads = rate.load().selectExpr("value AS ad", "timestamp AS shown")
clicks = rate.load().selectExpr("value AS clicked_ad", "timestamp + INTERVAL 2 SECONDS AS clicked")
joined = ads.withWatermark("shown", "5 seconds").join(
    clicks.where("clicked_ad % 3 = 0").withWatermark("clicked", "5 seconds"),
    expr("ad = clicked_ad AND clicked BETWEEN shown AND shown + INTERVAL 10 SECONDS"),
)
writer = joined.writeStream.format("memory").queryName("clicked_ads")
query = writer.trigger(processingTime="2 seconds").start()
while len(query.recentProgress) < 4:
    query.awaitTermination(1)
query.stop()
spark.table("clicked_ads").orderBy("ad").show(5, truncate=False)
spark.stop()
