"""Reads a topic of changes from its beginning, in one batch and without a time for each; prints the results.

The first topic is a flat log; the second one has Debezium's envelopes, all of one time.
"""

import json

from job import REQUIRED, arguments
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import streamjoin as sj

TABLE = "STRUCT<id: INT, v: STRING>"


def main() -> None:
    """Print the table of the flat log, then the matches of rows with the versions; in Python and in SQL."""
    args = arguments(__doc__, "work", bootstrap=REQUIRED)
    spark = sj.configure(SparkSession.builder.master("local[2]")).getOrCreate()
    spark.conf.set("spark.streamjoin.arrangements", str(args.work / "arrangements"))

    def records(topic: str) -> DataFrame:
        options = {"kafka.bootstrap.servers": args.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
        return spark.readStream.format("kafka").options(**options).load()

    def read(topic: str, schema: str) -> DataFrame:
        parsed = F.from_json(F.col("value").cast("string"), schema)
        return records(topic).select(parsed.alias("row")).select("row.*")

    flat = "id INT, v STRING, op STRING"
    records("flat").createOrReplaceTempView("topic")
    in_sql = spark.sql(
        f"WITH rows AS (SELECT from_json(CAST(value AS STRING), '{flat}') AS row FROM topic) SELECT row.* FROM rows"
    )
    for name, log in {"read": read("flat", flat), "in_sql": in_sql}.items():
        writer = sj.arrange(log.where("id > 0"), name, [["id"]], op="op").trigger(availableNow=True)
        writer.start(checkpointLocation=str(args.work / name)).awaitTermination()
        table = spark.read.format("streamjoin").load(name)
        print(json.dumps(sorted(tuple(row) for row in table.select("id", "v").collect())))

    log = read("envelopes", f"before {TABLE}, after {TABLE}, op STRING, ts_ms BIGINT")
    log = log.withColumn("since", F.timestamp_millis("ts_ms")).withWatermark("since", "0 seconds")
    asked = read("asked", "asked INT, time TIMESTAMP").withWatermark("time", "0 seconds")
    asked.createOrReplaceTempView("asked")
    log.createOrReplaceTempView("log")
    found = {
        "found": sj.temporal_join(asked, sj.versions(log, key="id"), F.expr("asked = id"), "left"),
        "found_in_sql": spark.sql(
            "SELECT * FROM asked LEFT JOIN VERSIONS(TABLE(log), KEY(id), OP(op)) FOR SYSTEM_TIME AS OF asked.time AS v "
            "ON asked.asked = v.id"
        ),
    }
    for name, joined in found.items():
        query = joined.select("asked", "v").writeStream.format("memory").queryName(name)
        running = query.option("checkpointLocation", str(args.work / name)).start()
        running.processAllAvailable()
        running.stop()
        print(json.dumps(sorted(tuple(row) for row in spark.table(name).where("asked < 9").collect())))


if __name__ == "__main__":
    main()
