"""Write with foreachBatch so that a batch that runs twice is in the output once."""

import shop
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.functions import expr


def write(batch: DataFrame, batch_id: int) -> None:
    """Write to a folder for this batch, which a second run overwrites. Fail the first time."""
    first_time = not (folder / "joined").exists()
    batch.write.mode("overwrite").parquet(f"{folder}/joined/batch={batch_id}")
    print(f"batch {batch_id} is written")
    if first_time:
        raise RuntimeError("as if the driver had died before the commit")


spark = shop.session(log_level="FATAL")  # the failure below is on purpose
folder = shop.new_folder()
on = "id = order_id AND delivered BETWEEN ordered AND ordered + INTERVAL 1 HOUR"
joined = shop.orders().join(shop.deliveries(), expr(on))
writer = joined.writeStream.foreachBatch(write).trigger(availableNow=True)
writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
try:
    writer.start().awaitTermination()
except StreamingQueryException:
    print("The query failed, and starts again from its checkpoint.")
    writer.start().awaitTermination()
spark.read.parquet(f"{folder}/joined").orderBy("id").show()
spark.stop()
