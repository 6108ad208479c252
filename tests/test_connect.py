"""Spark Connect: what a client can do, with a server in its own process."""

import os
from pathlib import Path

from conftest import Run

PROGRAM = """
import time
import warnings

warnings.simplefilter("ignore")  # of settings that only a server can take
import streamjoin as sj
from pyspark.errors import AnalysisException
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
    except (AnalysisException, sj.StreamJoinError) as error:
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


def test_sql_bounds_and_late_rows(python: Run, tmp_path: Path) -> None:
    text = """
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
"""
    out = python(program(tmp_path / "streams", text)).splitlines()
    assert out == [
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


def test_a_server_without_the_extension(python: Run, tmp_path: Path) -> None:
    text = 'refused(lambda: sj.bounds(stream("o").join(stream("d"), "id")))\n'
    plain = program(tmp_path / "streams", text).replace("sj.configure(builder)", "builder")
    assert python(plain).splitlines() == ["STREAMJOIN_JAR_MISSING"]
