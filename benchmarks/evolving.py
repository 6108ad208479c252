"""What it costs to change a query that keeps its state: ``python benchmarks/evolving.py``.

An inner interval join has read two streams, and its state holds all of their rows, ten million unless ``--rows`` says
otherwise. It is stopped, and one more batch of a thousand rows arrives. Then it is started again:

- unchanged: what a restart costs by itself;
- with other numbers of partitions, and with another state store: the batch that rewrites the state;
- on the checkpoint of Spark's own join, which ran up to the same point: the batch that takes over its state;
- with a new checkpoint, which reads the input from the beginning: what a changed query would cost otherwise.

Each is a process of its own with a heap of ``--heap``. The time of a batch is Spark's ``triggerExecution``; the peak of
the heap is the most that was in use at any time, garbage included. All of them have to return the same rows.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.machine import machine, project
from harness.query import executed, jvm, observed, totals
from harness.sides import CHANGELOG, ROCKSDB, SESSION
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import streamjoin as sj

RESULTS = Path(__file__).with_name("results") / "evolving.md"
START = 1_767_225_600  # 2026-01-01
FILES = 10
PARTITIONS = "spark.streamjoin.partitions"
DEFAULT_STORE = dict.fromkeys(ROCKSDB, "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider")

# What is started after the stop: its title, and its settings, added to those of the run before.
STORES: dict[str, dict[str, str]] = {"default store": {}, "RocksDB": ROCKSDB | CHANGELOG}
CHANGES: dict[str, dict[str, str]] = {
    "unchanged": {},
    "4 to 8 partitions": {PARTITIONS: "8"},
    "4 to 6 partitions": {PARTITIONS: "6"},
    "4 to 2 partitions": {PARTITIONS: "2"},
    "the other store": {},
    "Spark's own join taken over": {"spark.streamjoin.evolve": "exact", "spark.sql.shuffle.partitions": "4"},
}
OF_SPARK = {"spark.streamjoin.enabled": "false", "spark.sql.shuffle.partitions": "4"}


def session(settings: dict[str, str], heap: str) -> SparkSession:
    """Start a session of two cores."""
    builder = SparkSession.builder.master("local[2]")
    for key, value in (SESSION | {"spark.driver.memory": heap, PARTITIONS: "4"} | settings).items():
        builder = builder.config(key, value)
    return sj.configure(builder).getOrCreate()


def write(spark: SparkSession, inputs: Path, first: int, rows: int) -> None:
    """Add one file to each stream: rows of ten hours in all, a fifth of which have a match."""
    for name, step in (("orders", 1), ("deliveries", 5)):
        number = F.col("id") + first
        at = F.timestamp_micros(F.lit(START * 1_000_000) + number * 7_000)
        text = F.concat(F.lit("from customer "), number % 10_007)
        made = inputs / f"{name}-made"
        spark.range(0, rows, 1, 1).select(
            (number * step).alias(f"{name}_key"), at.alias(f"{name}_time"), text.alias(f"{name}_text")
        ).write.mode("overwrite").parquet(str(made))
        (inputs / name).mkdir(exist_ok=True)
        next(made.glob("part-*")).rename(inputs / name / f"{first:012d}.parquet")


def start(spark: SparkSession, inputs: Path, checkpoint: Path) -> dict[str, Any]:
    """Run the query to the end of its input, and return its figures."""

    def stream(name: str) -> Any:
        folder = str(inputs / name)
        schema = spark.read.parquet(folder).schema
        rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(folder)
        return rows.withWatermark(f"{name}_time", "10 seconds")

    bound = "deliveries_time BETWEEN orders_time - INTERVAL 1 DAY AND orders_time + INTERVAL 1 DAY"
    joined = stream("orders").join(stream("deliveries"), F.expr(f"orders_key = deliveries_key AND {bound}"))
    pools = [
        pool
        for pool in jvm(spark).java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
        if str(pool.getType()) == "Heap memory"
    ]
    for pool in pools:
        pool.resetPeakUsage()
    query = (
        observed(joined, "deliveries_key")
        .writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    batches = executed(query)
    return {
        "seconds": [batch["durationMs"]["triggerExecution"] / 1000 for batch in batches],
        "rows": sum(totals(batch, "rows") for batch in batches),
        "hash": sum(totals(batch, "hash") for batch in batches),
        "state": batches[-1]["stateOperators"][0]["numRowsTotal"],
        "partitions": batches[-1]["stateOperators"][0]["numShufflePartitions"],
        "heap": sum(int(pool.getPeakUsage().getUsed()) for pool in pools),
    }


def of_child(options: argparse.Namespace) -> None:
    """Do what one process has to do, and print its figures."""
    spark = session(json.loads(options.settings), options.heap)
    if options.child == "inputs":
        each = options.rows // 2 // FILES
        for file in range(FILES):
            write(spark, options.work / "inputs", file * each, each)
        result: dict[str, Any] = {}
    elif options.child == "more":
        write(spark, options.work / "inputs", options.rows // 2, 500)
        result = {}
    else:
        result = start(spark, options.work / "inputs", options.work / options.child)
    spark.stop()
    print(json.dumps(result))


def child(options: argparse.Namespace, what: str, settings: dict[str, str]) -> dict[str, Any]:
    """Run a part in a process of its own."""
    command = [sys.executable, __file__, "--child", what, "--settings", json.dumps(settings)]
    command += ["--rows", str(options.rows), "--heap", options.heap, "--work", str(options.work)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def compare(options: argparse.Namespace, store: str) -> list[str]:
    """Return the lines of the table for one state store."""
    settings = STORES[store]
    for folder in ("inputs", "begun", "begun-by-spark"):
        shutil.rmtree(options.work / folder, ignore_errors=True)
    child(options, "inputs", {})
    before = child(options, "begun", settings)
    of_spark = child(options, "begun-by-spark", settings | OF_SPARK)
    assert (of_spark["rows"], of_spark["hash"]) == (before["rows"], before["hash"]), "rows of Spark's own join"
    child(options, "more", {})
    other = ROCKSDB | CHANGELOG if store == "default store" else DEFAULT_STORE
    lines = []
    rows = set()
    for title, change in CHANGES.items():
        begun = "begun-by-spark" if "taken over" in title else "begun"
        runs = []
        for _ in range(options.rounds):
            shutil.rmtree(options.work / "changed", ignore_errors=True)
            shutil.copytree(options.work / begun, options.work / "changed")
            changed = settings | change | (other if title == "the other store" else {})
            runs.append(child(options, "changed", changed))
        rows |= {(before["rows"] + run["rows"], before["hash"] + run["hash"]) for run in runs}
        assert {run["partitions"] for run in runs} == {int(change.get(PARTITIONS, "4"))}, "the number that is set"
        lines.append(line(store, title, [run["seconds"][0] for run in runs], runs))
    shutil.rmtree(options.work / "changed", ignore_errors=True)
    replays = []
    for _ in range(options.rounds):
        shutil.rmtree(options.work / "replayed", ignore_errors=True)
        replays.append(child(options, "replayed", settings))
    rows |= {(run["rows"], run["hash"]) for run in replays}
    assert len(rows) == 1, f"other rows: {rows}"
    lines.append(line(store, "replay of the input", [sum(run["seconds"]) for run in replays], replays))
    return lines


def line(store: str, title: str, seconds: list[float], runs: list[dict[str, Any]]) -> str:
    """Return a line of the table."""
    heap = statistics.median(run["heap"] for run in runs) / 2**30
    state = runs[0]["state"]
    print(f"{store}, {title}: {sorted(seconds)} s, {heap:.1f} GiB, {state:,} rows", flush=True)
    low, high = min(seconds), max(seconds)
    return (
        f"| {store} | {title} | {statistics.median(seconds):.1f} ({low:.1f} to {high:.1f}) | {heap:.1f} | {state:,} |"
    )


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description="What it costs to change a query and keep its state.")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--heap", default="10g")
    parser.add_argument("--stores", nargs="+", choices=STORES, default=list(STORES))
    parser.add_argument("--child")
    parser.add_argument("--settings", default="{}")
    parser.add_argument("--work", type=Path)
    options = parser.parse_args()
    if options.child:
        of_child(options)
        return
    with tempfile.TemporaryDirectory(dir=options.work) as work:
        options.work = Path(work)
        lines = [each for store in options.stores for each in compare(options, store)]
    RESULTS.write_text(
        "\n".join(
            [
                "# What it costs to change a query and keep its state",
                "",
                f"`python benchmarks/evolving.py`, {datetime.now(UTC):%Y-%m-%d}, {options.rounds} rounds of each, a "
                f"heap of {options.heap}. {machine()['CPU']}; {project()['streamjoin']}.",
                "",
                "The first batch after a restart, with a thousand new rows. The replay is the sum of its batches.",
                "",
                "| state store | restarted | seconds, median | peak heap, GiB | rows in state |",
                "|---|---|---|---|---|",
                *lines,
                "",
            ]
        )
    )


if __name__ == "__main__":
    main()
