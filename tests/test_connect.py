"""Spark Connect: what a client can do, with a server in its own process."""

import os
from pathlib import Path

from conftest import Run
from pyspark.sql import SparkSession

import streamjoin as sj

PROGRAM = """
import time
import warnings

warnings.simplefilter("ignore")  # of settings that only a server can take
import streamjoin as sj
from pyspark.errors import AnalysisException, SparkRuntimeException
from pyspark.sql import SparkSession

builder = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "2")
spark = sj.configure(builder).getOrCreate()
spark.conf.set("spark.sql.session.timeZone", "UTC")
spark.conf.set("spark.streamjoin.lateRows", "keep")

FOLDER = "<folder>"


def stream(name):
    schema = "id INT, t TIMESTAMP"
    found = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(f"{FOLDER}/{name}")
    return found.withWatermark("t", "0 seconds")


def refused(call):
    try:
        call()
    except (AnalysisException, SparkRuntimeException, sj.StreamJoinError) as error:
        print(error.getCondition())


stream("o").createOrReplaceTempView("o")
stream("d").createOrReplaceTempView("d")
"""


def program(folder: Path, text: str) -> str:
    times = {"o": ["10:00", "15:00", "09:00"], "d": ["10:30", "15:30", "16:00"]}
    for name, rows in times.items():
        (folder / name).mkdir(parents=True)
        for number, time in enumerate(rows):
            file = folder / name / f"{number}.json"
            file.write_text(f'{{"id": {number}, "t": "2026-01-01T{time}:00Z"}}\n')
            os.utime(file, (number, number))  # Spark reads the oldest first
    return PROGRAM.replace("<folder>", str(folder)) + text


BOUNDS_AND_LATE_ROWS = """
df = spark.sql("SELECT o.id FROM o JOIN d WITHIN BETWEEN 0s AND 1h ON o.id = d.id")
for row in sj.bounds(df).collect():
    print(row.side, row.keeps)
frames = spark.sql("SELECT {o}.id FROM {o} JOIN {d} WITHIN 1h ON {o}.id = {d}.id", o=stream("o"), d=stream("d"))
print(frames.columns)

query = df.writeStream.format("memory").queryName("out").option("checkpointLocation", FOLDER + "/checkpoint").start()
query.processAllAvailable()
print(sorted(row.id for row in spark.table("out").collect()))
print([row.row for row in sj.late_rows(query).collect()])
print(sj.late_rows(query, streaming=True).isStreaming)
query.stop()

refused(lambda: sj.late_rows(query).collect())
refused(lambda: sj.bounds(spark.range(1)))
refused(lambda: sj.bounds(spark.sql("SELECT o.id FROM o JOIN d ON o.id = d.id")))
refused(lambda: spark.sql("SELECT o.id FROM o JOIN d WITHIN 1 month ON o.id = d.id"))
refused(lambda: sj.check(spark))
print("---")
"""

# What a classic session maintains, read over Connect.
ARRANGEMENTS = """
refused(lambda: sj.arrange(stream("o"), "orders", keys=[["id"]]))
refused(lambda: sj.delta_join({"o": "orders", "d": "deliveries"}, "o.id = d.id", spark=spark))
refused(lambda: sj.arrangement(FOLDER + "/arrangements/returns", spark=spark))

orders = sj.arrangement(FOLDER + "/arrangements/orders", spark=spark)
print(orders.schema.simpleString(), orders.keys, orders.versions, orders.rows, orders.bytes > 0)
print(sorted(row.id for row in orders.toDF(1).collect()), sorted(row.id for row in orders.toDF().collect()))
writer = orders.changes().drop("t").writeStream.format("memory").queryName("changes").trigger(availableNow=True)
writer.option("checkpointLocation", FOLDER + "/reader").start().awaitTermination()
print(sorted(tuple(row) for row in spark.table("changes").collect()))
((reader,),) = [row.readers for row in spark.sql(f"SELECT * FROM sj_arrangements('{orders.path}')").collect()]
print(reader.version, reader.versions_behind, [each.version for each in orders.readers])

spark.conf.set("spark.streamjoin.arrangements", FOLDER + "/arrangements")
pairs = spark.sql("SELECT a.id, b.t FROM STREAM orders AS a JOIN STREAM orders AS b ON a.id = b.id WHERE a.id > 0")
writer = pairs.writeStream.format("memory").queryName("pairs").trigger(availableNow=True)
writer.option("checkpointLocation", FOLDER + "/pairs").start().awaitTermination()
print(sorted((row.id, row._diff) for row in spark.table("pairs").collect()))

table = sj.table("orders", spark=spark).withColumnRenamed("t", "ordered")
found = sj.join(stream("d"), table, how="left").select("id", "ordered")
writer = found.writeStream.format("memory").queryName("found").trigger(availableNow=True)
writer.option("checkpointLocation", FOLDER + "/found").start().awaitTermination()
print(sorted((row.id, row.ordered.hour) for row in spark.table("found").collect()))
refused(lambda: sj.join(table, sj.table("orders", spark=spark)))
a, b = (spark.readStream.table("orders").alias(name) for name in "ab")
refused(lambda: a.join(b, "id").columns)
target = {"url": f"jdbc:derby:{FOLDER}/derby;create=true", "dbtable": "kept"}
spark.createDataFrame([], "id INT").write.format("jdbc").options(**target).save()
ids = spark.sql("SELECT id, _diff FROM STREAM orders")
writer = sj.upsert(ids, target, "id").trigger(availableNow=True)
writer.start(checkpointLocation=FOLDER + "/upsert").awaitTermination()
print(sorted(row.id for row in spark.read.format("jdbc").options(**target).load().collect()))
refused(lambda: sj.upsert(ids, target, "none").start(checkpointLocation=FOLDER + "/refused"))
with open(FOLDER + "/arrangements/orders/versions/2", "w") as manifest:
    manifest.write("{}")
refused(lambda: spark.read.format("streamjoin").load(FOLDER + "/arrangements/orders").collect())
"""


def test_sql_bounds_late_rows_and_arrangements(python: Run, spark: SparkSession, tmp_path: Path) -> None:
    client = program(tmp_path / "streams", BOUNDS_AND_LATE_ROWS + ARRANGEMENTS)
    folder = tmp_path / "streams"
    stream = spark.readStream.schema("id INT, t TIMESTAMP").option("maxFilesPerTrigger", 1).json(f"{folder}/o")
    writer = sj.arrange(stream, f"{folder}/arrangements/orders", keys=[["id"]]).trigger(availableNow=True)
    writer.start(checkpointLocation=f"{folder}/maintainer").awaitTermination()
    out = python(client).splitlines()
    middle = out.index("---")
    assert out[:middle] == [
        "left o kept 1 hour",
        "right d kept 0 seconds",
        "['id']",
        "[0, 1]",
        """['{"id":2,"t":"2026-01-01T09:00:00.000000Z"}']""",
        "True",
        "STREAMJOIN_TABLE_FUNCTION",
        "STREAMJOIN_NOT_A_STREAM",
        "STREAMJOIN_UNBOUNDED",
        "STREAMJOIN_CLAUSE_DURATION",
        "STREAMJOIN_SPARK_CONNECT",
    ]
    assert out[middle + 1 :] == [
        "STREAMJOIN_SPARK_CONNECT",
        "STREAMJOIN_SPARK_CONNECT",
        "STREAMJOIN_NO_ARRANGEMENT",
        "struct<id:int,t:timestamp> [['id']] Versions(oldest=0, newest=2) 3 True",
        "[0, 1] [0, 1, 2]",
        "[(0, 2, 1), (1, 2, 1), (2, 2, 1)]",
        "2 0 [2]",
        "[(1, 1), (2, 1)]",
        "[(0, 10), (1, 15), (2, 9)]",
        "STREAMJOIN_SPARK_CONNECT",
        "STREAMJOIN_DELTA",
        "[0, 1, 2]",
        "STREAMJOIN_UPSERT",
        "STREAMJOIN_ARRANGEMENT_UNREADABLE",
    ]


def test_a_server_without_the_extension(python: Run, tmp_path: Path) -> None:
    text = 'refused(lambda: sj.bounds(stream("o").join(stream("d"), "id")))\n'
    plain = program(tmp_path / "streams", text).replace("sj.configure(builder)", "builder")
    assert python(plain).splitlines() == ["STREAMJOIN_JAR_MISSING"]
