"""Join two tables that change. The join emits changes of the result as added and removed rows."""

import shop

import streamjoin as sj


def change(table: str, *rows: str) -> None:
    """Let changes of a table come, as a file, and keep them as the next version of its arrangement."""
    files = folder / table
    files.mkdir(exist_ok=True)
    (files / f"{len(list(files.iterdir()))}.csv").write_text("\n".join(rows))
    changes = spark.readStream.schema(f"{COLUMNS[table]}, op STRING").csv(str(files))
    keys = [["id"], ["customer"]] if table == "orders" else [["customer"]]
    writer = sj.arrange(changes, table, keys=keys, op="op").trigger(availableNow=True)
    writer.start(checkpointLocation=f"{folder}/checkpoints/{table}").awaitTermination()


COLUMNS = {"orders": "id INT, customer STRING, total INT", "customers": "customer STRING, city STRING"}
spark = shop.session()
folder = shop.new_folder()
spark.conf.set("spark.streamjoin.arrangements", f"{folder}/arrangements")

change("orders", "1,Ada,30,insert", "2,Eve,50,insert")
change("customers", "Ada,Paris,insert", "Eve,Rome,insert")
joined = sj.delta_join(
    {"o": "orders", "c": "customers"},
    on="o.customer = c.customer AND o.total < 100",
    select=["o.id", "o.customer", "o.total", "c.city"],
)
query = joined.writeStream.foreachBatch(lambda batch, _: batch.orderBy("id", "_diff").show()).start()
query.processAllAvailable()
change("customers", "Ada,Oslo,update")  # Her order moves with her.
query.processAllAvailable()
change("orders", "1,Ada,300,update", "2,,,delete")  # One is too expensive now, one is gone.
query.processAllAvailable()
query.stop()
spark.stop()
