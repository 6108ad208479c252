"""Calls every function of the package, in one kind of session, and prints the results.

``python every_function.py <kind> <folder> <n>``: the kind is ``classic``, ``local`` (a Spark Connect server in this
process) or the address of a server, ``sc://...``. The output does not depend on the kind, so that all can be compared.
Of the streaming queries without arrangements, every n-th runs; the others are only analyzed.
"""

import itertools
import os
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import streamjoin as sj

warnings.simplefilter("ignore")  # of settings that only a server can take
KIND, FOLDER, every = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])


def session() -> SparkSession:
    if KIND.startswith("sc://"):
        return SparkSession.builder.remote(KIND).getOrCreate()
    builder: Any = SparkSession.builder.config("spark.ui.enabled", "false")
    builder = builder.remote("local[2]") if KIND == "local" else builder.master("local[2]")
    return sj.configure(builder).getOrCreate()


spark = session()
if KIND == "local":
    sj.configure(SparkSession.builder.remote("local[2]"))  # a cell of a notebook that runs again
spark.conf.set("spark.sql.shuffle.partitions", "2")
spark.conf.set("spark.sql.session.timeZone", "UTC")
spark.conf.set("spark.streamjoin.lateRows", "keep")
spark.conf.set("spark.streamjoin.arrangements", str(FOLDER / "arrangements"))

SCHEMAS = {
    "orders": "id INT, item STRING, t TIMESTAMP",
    "deliveries": "id INT, van INT, u TIMESTAMP",
    "prices": "item STRING, price INT, since TIMESTAMP, op STRING",
    "envelopes": "before STRUCT<item: STRING, price: INT>, after STRUCT<item: STRING, price: INT>, op STRING, "
    "since TIMESTAMP",
    "sensors": "v INT, t TIMESTAMP, b BOOLEAN",
}
for line in Path(__file__).with_name("every_function_input.txt").read_text(encoding="utf-8").splitlines():
    place, text = line.split(" ", 1)
    file = FOLDER / place
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as rows_of_file:
        rows_of_file.write(f"{text}\n")
    os.utime(file, (int(file.stem),) * 2)  # Spark reads the oldest first


def stream(name: str, watermark: str | None = None) -> DataFrame:
    found = spark.readStream.schema(SCHEMAS[name]).option("maxFilesPerTrigger", 1).json(str(FOLDER / name))
    return found if watermark is None else found.withWatermark(watermark, "0 seconds")


orders = stream("orders", "t")
deliveries = stream("deliveries", "u")
prices = stream("prices", "since")
names: list[str] = []
shown = itertools.count()


def start(df: DataFrame) -> Any:
    names.append(f"out_{len(names)}")
    writer = df.writeStream.format("memory").queryName(names[-1]).trigger(availableNow=True)
    query = writer.start(checkpointLocation=str(FOLDER / "checkpoints" / names[-1]))
    query.awaitTermination()
    return query


def show(what: str, df: DataFrame, *columns: Any) -> None:
    """Run a query to its end, and print its rows."""
    selected = df.select(*columns) if columns else df
    if next(shown) % every:
        names.append("not run")
        print(f"{what}: {', '.join(selected.columns)}: not run")
        return
    start(selected)
    found = spark.table(names[-1])
    rows = found.select([F.col(f"`{each}`").cast("string") for each in found.columns]).collect()
    print(f"{what}: {', '.join(found.columns)}: {sorted(map(str, map(tuple, rows)))}")


def rejected(what: str, call: Callable[[], Any]) -> None:
    """Print an error, with the id of the Column that it names replaced, because it differs between sessions."""
    try:
        call()
    except PySparkException as error:
        said = str(error).splitlines()[0].replace(str(FOLDER), "<folder>")
        print(f"{what}: {error.getCondition()} {re.sub('[0-9a-f]{8}', '<id>', said)}")
    else:
        print(f"{what}: not rejected")


sj.check(spark)

# join
within = ("0 seconds", "1 hour")
show("join on a name", sj.join(orders, deliveries, "id", "left", within=within), "id", "item", "van", deliveries["u"])
by_alias = sj.join(orders.alias("o"), deliveries.alias("d"), F.expr("o.id = d.id"), within=within)
show("join by alias", by_alias, "o.id", "d.van")
show("join of frames' columns", sj.join(orders, deliveries, orders["id"] == deliveries["id"], within=within), "van")
odd = F.udf(lambda number: number % 2 == 1, "boolean")
in_python = sj.join(orders, deliveries, [orders["id"] == deliveries["id"], odd(orders["id"])], within=within)
show("join on a Python function", in_python, orders["id"])
pair = [F.col("a.id"), F.col("b.id").alias("other")]
show(
    "join with itself", sj.join(orders.alias("a"), orders.alias("b"), F.expr("a.item = b.item"), within="1 hour"), *pair
)

# window_join
windowed = sj.window_join(orders, deliveries, "id", "left", following="10 minutes")
show("window join", windowed, windowed["rowtime"], orders["t"], deliveries["u"], "id")
show("window join, hidden column", windowed, orders["id"], deliveries["id"].alias("hidden"))
preceding = sj.window_join(orders.alias("o"), deliveries.alias("d"), F.expr("o.id = d.id"), preceding="10 minutes")
show("window join, preceding", preceding, "o.item", "rowtime")
twice = sj.window_join(windowed, prices, "item", following="20 minutes")
show("window join of one", twice, twice["rowtime"], "price")

# temporal_join, versions, asof_join
history = sj.versions(prices, key="item", op="op")
print(history.key, history.time, history.op, history.order)
valid = sj.temporal_join(orders, history, "item", "left")
show("temporal join", valid, orders["id"], "price")
given = sj.versions(prices, key=prices["item"], time=F.col("since"), op=prices["op"])
show(
    "temporal join by Columns", sj.temporal_join(orders, given, "item", as_of=orders["t"], ordered=False), "id", "price"
)
unwrapped = sj.versions(stream("envelopes", "since"), key=F.col("item"))
print(unwrapped.changes.columns, unwrapped.key, unwrapped.time, unwrapped.op)
show("temporal join with an envelope", sj.temporal_join(orders, unwrapped, "item", history="1 hour"), "id", "price")
show("as-of join", sj.asof_join(orders, prices, "item"), "id", "price")
show("as-of join by text", sj.asof_join(orders, prices, "item", match="l.t >= r.since"), "id", "price")
by_column = sj.asof_join(orders, prices, "item", "left", match=orders["t"] <= prices["since"], tolerance="30 minutes")
show("as-of join by a Column", by_column, orders["id"], "price")
nearest = sj.asof_join(
    orders.alias("a"), orders.alias("b"), F.expr("a.item = b.item"), direction="nearest", tolerance="5 minutes"
)
show("as-of join with itself", nearest, *pair)

# impose_order, with_bounds, idle_after
show("impose order", sj.impose_order(stream("orders"), F.col("t"), "1 minute", sort=True))
show("bounds in a stream", sj.with_bounds(stream("sensors"), "t", is_bound=F.col("b"), lag="0 seconds"))
idle = sj.idle_after(deliveries, "30 seconds")
show("idle", sj.join(orders, idle, "id", within=within), "id", idle["van"])
orders.createOrReplaceTempView("orders_now")
deliveries.createOrReplaceTempView("deliveries_now")
of_sql = spark.sql("WITH x AS (SELECT *, id + 1 AS next FROM orders_now) SELECT id, next, t FROM x WHERE id < 9")
other = spark.sql("WITH x AS (SELECT id, van, u FROM deliveries_now) SELECT * FROM x")
show("frames of SQL", sj.join(sj.idle_after(of_sql, "1 minute"), other, "id", within=within), "id", "next", "van")
in_sql = """SELECT *, sj_within('{"lower": "0 seconds", "upper": "1 hour"}')
    FROM orders_now AS o JOIN deliveries_now AS d ON o.id = d.id"""
show("in SQL", spark.sql(in_sql), "o.id", "d.van")

# bounds, late_rows
for row in sj.bounds(sj.join(orders.alias("o"), other, "id", within=within)).collect():
    print("bounds:", tuple(row))
query = start(sj.join(orders, deliveries, "id", within=within))
late = sj.late_rows(query)
print(
    "late:",
    [(row.side, row.column, row.row) for row in late.collect()],
    sj.late_rows(query, streaming=True).isStreaming,
)

# evolution
longer = sj.join(orders, deliveries, "id", within=("0 seconds", "2 hours"))
for row in sj.evolution(longer, FOLDER / "checkpoints" / names[-1]).collect():
    print("evolution:", row.join, row.what, row.was, row["is"], row.state, row.results)

# explain_analyze, state, why, report, watch; of a query that runs
running = sj.join(orders, deliveries, "id", within=within).writeStream.format("noop").queryName("looked_at")
query = running.start(checkpointLocation=str(FOLDER / "looked_at"))
query.processAllAvailable()
for row in sj.explain_analyze(query, with_skew=True).collect():
    print("plan:", row.plan, row.rows_kept)
query.stop()
report = sj.report(query, FOLDER / "report.html").read_text(encoding="utf-8")
print("report:", report.count('<section class="query"'), "looked_at</title>" in report)
print("watch:", str(sj.watch(query)).splitlines()[1].partition(":")[0])
print("operators:", [tuple(row)[:4] for row in sj.state(query).collect()])
print("state:", sorted(row.id for row in sj.state(query, operator=1, side="left").select("left.id").collect()))
print("why:", sorted((row.side, row.outcome) for row in sj.why(query, "id = 1").collect()))
print("why:", [row.outcome for row in sj.why(str(FOLDER / "looked_at"), "id = 12345").collect()])
timed = sj.state(query, operator=1, side="left", times="text").select("left.t", "time", "leaves_after")
print("state:", sorted(tuple(row) for row in timed.collect()))
for escaped in ("true", "false"):
    spark.conf.set("spark.sql.parser.escapedStringLiterals", escaped)
    quoted = """id = 1 AND 'Привет "${x}" \\\\' <> "it's" """
    print("why:", sorted((row.side, row.outcome) for row in sj.why(query, quoted).collect()))
    rejected("an arrangement that is none", lambda: sj.arrangement("it's \\ none", spark=spark))
spark.conf.unset("spark.sql.parser.escapedStringLiterals")

# arrange, arrangement, table, delta_join
every = 1  # an error names all readers of an arrangement
for name, keys in (("orders", [["id"], ["item"]]), ("deliveries", F.col("id"))):
    kept = sj.arrange(stream(name), name, keys=keys)
    kept.trigger(availableNow=True).start(checkpointLocation=str(FOLDER / f"keeps_{name}")).awaitTermination()
kept = sj.arrange(stream("prices"), "prices", keys=[["item"]], op=F.col("op"), time="since", ttl="100000 days")
kept.trigger(availableNow=True).start(checkpointLocation=str(FOLDER / "keeps_prices")).awaitTermination()
noted = sj.arrange(stream("deliveries").withColumn("note", F.lit("")), "deliveries", keys="id")
for row in sj.evolution(noted, FOLDER / "keeps_deliveries").collect():
    print("evolution:", row.join, row.what, row.was, "to", row["is"], row.state, row.results)
found = sj.arrangement("orders", spark=spark)
print(found.name, found.keys, found.versions, found.rows, found.readers, found.schema.simpleString())
print(sorted(row.id for row in found.toDF().collect()))
rejected(
    "look-up without the key", lambda: start(sj.join(deliveries, sj.table("deliveries", spark=spark), F.expr("1 = 1")))
)
show("look-up", sj.join(orders, sj.table("prices", spark=spark), how="left"), "id", "price")
inputs: dict[str, Any] = {"o": "orders", "d": sj.arrangement("deliveries", spark=spark)}
show("delta join", sj.delta_join(inputs, "o.id = d.id", ["o.item", "d.van"], spark=spark))
show("delta join on a name", sj.delta_join(inputs, "id", how="left", spark=spark))
by_columns = sj.delta_join(
    inputs, F.col("o.id") == F.col("d.id"), [F.col("o.*"), F.upper("o.item").alias("up")], spark=spark
)
show("delta join by Columns", by_columns)
show("join of two tables", sj.join(sj.table("orders", spark=spark), sj.table("deliveries", spark=spark), "id", "left"))

rejected("a reader that is none", lambda: found.release("nothing"))
rejected("an arrangement that is used", found.drop)
sj.arrangement("prices", spark=spark).drop(force=True)
rejected("a dropped arrangement", lambda: sj.arrangement("prices", spark=spark))

# upsert
target = {"url": f"jdbc:derby:{FOLDER}/derby;create=true", "dbtable": "kept"}
spark.createDataFrame([], "id INT").write.format("jdbc").options(**target).save()
ids = sj.delta_join(inputs, "id", "o.id", spark=spark)
sj.upsert(ids, target, F.col("id")).trigger(availableNow=True).start(
    checkpointLocation=str(FOLDER / "upsert")
).awaitTermination()
print("upsert:", sorted(row.id for row in spark.read.format("jdbc").options(**target).load().collect()))

# Errors
plain = stream("orders")
rejected("no watermark", lambda: sj.join(plain, deliveries, "id", within="1 hour"))
rejected("a batch", lambda: sj.window_join(orders, found.toDF(), "id", following="1 hour"))
rejected("a computed column", lambda: sj.impose_order(plain, F.to_timestamp("item"), "1s"))
rejected("a column of another frame", lambda: sj.impose_order(plain, F.col("nothing"), "1s"))
rejected("a star", lambda: sj.impose_order(plain, F.col("*"), "1s"))
rejected("no key", lambda: sj.temporal_join(orders, history, F.expr("price = id")))
rejected("a direction", lambda: sj.asof_join(orders, prices, "item", direction="forward"))
rejected("idle without a watermark", lambda: sj.idle_after(plain, "1 minute"))
rejected("a bound that is none", lambda: sj.with_bounds(plain, "t", is_bound="item", lag="0s"))
rejected("a key that is none", lambda: sj.arrange(plain, "x", keys="nothing"))
rejected("no such arrangement", lambda: sj.arrangement("nothing", spark=spark))
rejected("no such input", lambda: sj.delta_join({"o": "orders", "n": "nothing"}, "o.id = n.id", spark=spark))
rejected("an upsert by no column", lambda: sj.upsert(ids, target, "none").start(checkpointLocation=str(FOLDER / "no")))
rejected("not tied", lambda: sj.delta_join(inputs, "o.id < d.id", spark=spark))
rejected("bounds of a batch", lambda: sj.bounds(found.toDF()))
rejected("evolution without a checkpoint", lambda: sj.evolution(longer, FOLDER / "orders"))
rejected("bounds of an unbounded join", lambda: sj.bounds(orders.join(deliveries, "id")))
rejected("a column in SQL", lambda: spark.sql("SELECT id, sj_idle_after('{}') FROM orders_now"))
rejected(
    "an argument that is none", lambda: spark.sql("""SELECT *, sj_idle_after('{"afterwards": 1}') FROM orders_now""")
)
rejected("no argument", lambda: spark.sql("SELECT *, sj_idle_after() FROM orders_now"))
spark.stop()
