"""Look up a table that changes, in a stream of orders. Each order matches the current customers."""

import shop

import streamjoin as sj


def customers(*changes: str) -> None:
    """Let changes of the customers come, as a file, and keep them as the next version of the table."""
    files = folder / "customers"
    files.mkdir(exist_ok=True)
    (files / f"{len(list(files.iterdir()))}.csv").write_text("\n".join(changes))
    stream = spark.readStream.schema("customer STRING, city STRING, op STRING").csv(str(files))
    writer = sj.arrange(stream, "customers", keys=[["customer"]], op="op").trigger(availableNow=True)
    writer.start(checkpointLocation=f"{folder}/checkpoint").awaitTermination()


spark = shop.session()
folder = shop.new_folder()
spark.conf.set("spark.streamjoin.arrangements", f"{folder}/arrangements")
(folder / "orders").mkdir()

customers("Ada,Paris,insert", "Eve,Rome,insert")
orders = spark.readStream.schema("id INT, customer STRING").csv(f"{folder}/orders")
joined = orders.join(sj.table("customers"), "customer", "left").select("id", "customer", "city")
query = joined.writeStream.foreachBatch(lambda batch, _: batch.orderBy("id").show()).start()

(folder / "orders" / "1.csv").write_text("1,Ada\n2,Bob")
query.processAllAvailable()
customers("Ada,Oslo,update", "Bob,Bern,insert")  # Emitted rows do not change.
(folder / "orders" / "2.csv").write_text("3,Ada\n4,Bob")
query.processAllAvailable()
query.stop()
spark.stop()
