"""One run of one side in this process: the result is the last line of the output, as JSON.

``run.py`` starts it. The sink discards all rows; an observation before it counts the rows and those with a right row,
and sums up hashes of all columns.
"""

import argparse
import json
import os
import platform
import shutil
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

import streamjoin as sj
from harness.generate import Streams, Table
from harness.scenarios import Scenario, scenarios
from harness.sides import BY_NAME, WITH_STATE, Side, session
from harness.with_state import with_state

Record = dict[str, Any]

DURATIONS = ["triggerExecution", "latestOffset", "queryPlanning", "addBatch", "walCommit", "commitOffsets"]
OPERATOR = [
    "numRowsTotal",
    "numRowsRemoved",
    "allUpdatesTimeMs",
    "allRemovalsTimeMs",
    "commitTimeMs",
    "memoryUsedBytes",
]


def main() -> None:
    """Run the side that the command line names."""
    # Spark's workers are this Python, with its packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    parser = argparse.ArgumentParser(description="One run of one side.")
    parser.add_argument("--scenario", required=True)
    parser.add_argument("--scale", type=float, required=True)
    parser.add_argument("--side", choices=BY_NAME, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--conf", nargs="*", default=[], help="settings of this run, key=value")
    parser.add_argument("--part", choices=["whole", "begin", "continue"], default="whole")
    args = parser.parse_args()
    scenario = scenarios(args.scale)[args.scenario]
    inputs = scenario.streams.folder(args.work)
    checkpoint = args.work / "checkpoint"
    if args.part != "continue":
        shutil.rmtree(checkpoint, ignore_errors=True)
    if args.part != "whole":
        inputs = arrived(scenario.streams, inputs, args.work / "arrived", args.part == "continue")
    conf = dict(setting.split("=", 1) for setting in args.conf)
    record = run(scenario, BY_NAME[args.side], conf, inputs, checkpoint)
    if args.part != "begin":
        shutil.rmtree(checkpoint, ignore_errors=True)
    print(json.dumps(record))


def arrived(streams: Streams, inputs: Path, folder: Path, everything: bool) -> Path:
    """Return a folder with links to the first two thirds of the files, or to all."""
    if not everything:
        shutil.rmtree(folder, ignore_errors=True)
    for table in (streams.left, streams.right):
        files = sorted((inputs / table.name).iterdir())
        (folder / table.name).mkdir(parents=True, exist_ok=True)
        for file in files if everything else files[: len(files) * 2 // 3]:
            link = folder / table.name / file.name
            if not link.exists():
                link.hardlink_to(file)
    return folder


def run(scenario: Scenario, side: Side, conf: dict[str, str], inputs: Path, checkpoint: Path) -> Record:
    """Run the query to the end of its input and return what it did.

    Args:
        scenario: what to run.
        side: the side that runs it.
        conf: settings of this run, in addition to those of the side.
        inputs: the folder with the folders of both streams.
        checkpoint: where the query keeps its checkpoint.
    """
    spark = session(side, {"spark.sql.shuffle.partitions": str(scenario.partitions)} | conf)
    rows = query_rows(spark, scenario, side, inputs)
    started = time.perf_counter()
    query = (
        observed(rows, scenario.streams.right.row_id)
        .writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    heap = peak_heap(spark, query) if scenario.kind == "memory" else None
    query.awaitTermination()
    wall = time.perf_counter() - started
    batches = executed(query)
    files = [file for file in (checkpoint / "state").rglob("*") if file.is_file()]
    record: Record = {
        "wall": wall,
        "counts": [sum(totals(batch, name) for batch in batches) for name in ("rows", "matched")],
        "hash": sum(totals(batch, "hash") for batch in batches),
        "operator": next((each["operatorName"] for batch in batches for each in batch["stateOperators"]), None),
        "inputRows": sum(batch["numInputRows"] for batch in batches),
        "batches": columns(batches),
        "stateFiles": len(files),
        "stateFilesBytes": sum(file.stat().st_size for file in files),
        "peakHeapBytes": heap,
        "conf": conf,
        "versions": versions(spark),
    }
    spark.stop()
    return record


def query_rows(spark: SparkSession, scenario: Scenario, side: Side, inputs: Path) -> DataFrame:
    """Return what the query computes: the join, or for the floor both inputs, shuffled like the join's."""
    streams = scenario.streams
    left = stream(spark, streams, streams.left, inputs)
    right = stream(spark, streams, streams.right, inputs)
    if side.engine == "floor":
        return floor(left, streams.left, right, streams.right, scenario.partitions)
    if side.engine in WITH_STATE:
        return with_state(left, right, buckets=side.engine == "with-state-buckets")
    if scenario.temporal:
        versions = sj.versions(right, key=streams.right.key, time=streams.right.time)
        same = F.expr(f"{streams.left.key} = {streams.right.key}")
        return sj.temporal_join(left, versions, same, "left", as_of=streams.left.time)
    if side.engine == "spark" and not streams.has_key:
        return with_constant_key(left, right, streams.condition, scenario.how)
    if side.ordered:
        window = timedelta(milliseconds=scenario.window_ms or 0)
        joined = sj.window_join(left, right, F.expr(streams.condition), scenario.how, following=window)
        # The output is compared with that of the other sides.
        return joined.drop("rowtime")
    return left.join(right, F.expr(streams.condition), scenario.how)


def with_constant_key(left: DataFrame, right: DataFrame, condition: str, how: str) -> DataFrame:
    """Return a join without an equality as Spark takes it: by the same constant on both sides, all rows in one task."""
    keyed = left.withColumn("left_key", F.lit(1)), right.withColumn("right_key", F.lit(1))
    return keyed[0].join(keyed[1], F.expr(f"left_key = right_key AND {condition}"), how).drop("left_key", "right_key")


def stream(spark: SparkSession, streams: Streams, table: Table, inputs: Path) -> DataFrame:
    """Return one of the streams with its watermark, one file per batch."""
    folder = str(inputs / table.name)
    schema = spark.read.parquet(folder).schema
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(folder)
    return rows.withWatermark(table.time, f"{streams.delay_ms} milliseconds")


def floor(left: DataFrame, left_table: Table, right: DataFrame, right_table: Table, partitions: int) -> DataFrame:
    """Return all rows of both inputs, each shuffled on its join key to as many partitions as the join has.

    This is the cost of any join of the two before its first row: reading, watermarks, a shuffle of all columns. To have
    one query, the two are united, each padded with nulls for the other's columns. Nothing is matched and nothing kept.
    The observation hashes every column, so the optimizer cannot drop any of them before the shuffle.
    """
    shuffled = [
        rows.repartition(partitions, table.key or table.row_id)
        for rows, table in ((left, left_table), (right, right_table))
    ]
    return shuffled[0].unionByName(shuffled[1], allowMissingColumns=True)


def observed(rows: DataFrame, right_id: str) -> DataFrame:
    """Return the same rows, with their totals in the progress of each batch."""
    # 32 bits of each hash: the sum of a run stays far below what a LONG holds.
    row_hash = F.xxhash64(*rows.columns).bitwiseAND(F.lit(0xFFFFFFFF))
    return rows.observe(
        "totals",
        F.count(F.lit(1)).alias("rows"),
        F.count(right_id).alias("matched"),
        F.coalesce(F.sum(row_hash), F.lit(0)).alias("hash"),
    )


def totals(batch: Record, name: str) -> int:
    """Return a total that a batch observed."""
    return int(batch["observedMetrics"]["totals"][name])


def executed(query: StreamingQuery) -> list[Record]:
    """Return the progress of each batch that ran, in order.

    A trigger without work also reports progress. It repeats the figures of the last batch, but lacks the time of
    ``addBatch``.
    """
    progress = [json.loads(each.json) for each in query.recentProgress]
    batches = {each["batchId"]: each for each in progress if "addBatch" in each["durationMs"]}
    return [batches[number] for number in sorted(batches)]


def columns(batches: list[Record]) -> dict[str, list[float]]:
    """Return a dict of figures, each with a value per batch, without those that no batch has.

    Times are in milliseconds. Those of the driver are durations, those of the operator sums over its tasks, two of
    which run at a time.
    """
    operators = [(batch["stateOperators"] or [{}])[0] for batch in batches]
    custom = [operator.get("customMetrics", {}) for operator in operators]
    sources: list[tuple[list[str], list[dict[str, float]]]] = [
        (["numInputRows"], batches),
        (DURATIONS, [batch["durationMs"] for batch in batches]),
        (OPERATOR, operators),
        (sorted(set().union(*custom)), custom),
    ]
    return {
        name: [values.get(name, 0) for values in dicts]
        for names, dicts in sources
        for name in names
        if any(name in values for values in dicts)
    }


def peak_heap(spark: SparkSession, query: StreamingQuery) -> int:
    """Follow the query to its end, and return the most bytes that a garbage collection after a batch left in use."""
    peak = 0
    seen = None
    while query.isActive:
        last = query.lastProgress
        if last is None or last.batchId == seen:
            time.sleep(0.02)
            continue
        seen = last.batchId
        peak = max(peak, used_heap(spark))
    return peak


def used_heap(spark: SparkSession) -> int:
    """Return the bytes of the heap that a collection leaves in use."""
    jvm(spark).java.lang.System.gc()
    return int(jvm(spark).java.lang.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed())


def versions(spark: SparkSession) -> dict[str, str]:
    """Return the versions of what runs."""
    return {
        "Spark": spark.version,
        "Java": str(jvm(spark).java.lang.System.getProperty("java.version")),
        "Python": platform.python_version(),
    }


def jvm(spark: SparkSession) -> Any:
    """Return the driver's JVM."""
    return spark._jvm


if __name__ == "__main__":
    main()
