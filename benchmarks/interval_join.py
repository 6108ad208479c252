"""The interval join beside Spark's own, on the same files, with the same settings, in one run.

One million orders, 200 of them a second of event time, and 900 thousand deliveries, each up to 90 minutes after its
order; a left outer join within an hour. Both streams arrive in the order of their times but for ten seconds, and are
cut into 25 files of equal numbers of rows, one of each a batch: deliveries, which take longer, run ahead of orders
in event time. One more file of each side closes it, so that all rows leave the state.

Every side runs in a process of its own, rounds interleaved. The sink counts rows and sums up their hashes: a run
with another result than the others, or other counts than DuckDB's batch answer, ends the benchmark.
"""

import argparse
import json
import platform
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

BATCHES = 25
RESULTS = Path(__file__).with_name("results")
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
# A side is an engine and a state store; the first is what the others are measured by.
SIDES = ["spark-default", "spark-rocksdb", "streamjoin-default", "streamjoin-rocksdb"]
PHASES = ["queryPlanning", "addBatch", "walCommit", "commitOffsets"]
TASK_TIMES = ["allUpdatesTimeMs", "allRemovalsTimeMs", "commitTimeMs"]
TASK_METRICS = ["loadTimeMs", "leftTimeMs", "rightTimeMs", "evictTimeMs"]

Result = dict[str, Any]


def main() -> None:
    """Generate the files once, run all sides, print and keep the table."""
    parser = argparse.ArgumentParser(description="The interval join beside Spark's own.")
    parser.add_argument("--orders", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=SIDES)
    parser.add_argument("--work", type=Path, default=Path("build/bench"))
    parser.add_argument("--run", choices=SIDES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    work = args.work.resolve()
    inputs = work / f"input-{args.orders}"
    if args.run:
        print(json.dumps(run_side(args.run, inputs, work)))
        return
    if not inputs.exists():
        generate(args.orders, inputs)
    expected = counts(inputs)
    results: list[Result] = []
    for number in range(args.rounds):
        for side in args.sides:
            result = run_in_process(side, args.orders, work)
            print(f"round {number + 1}: {side:<20} {result['wall']:7.1f} s", flush=True)
            assert result["counts"] == expected, f"{side}: {result['counts']}, DuckDB has {expected}"
            assert result["hash"] == (results or [result])[0]["hash"], f"{side}: another result"
            results.append(result)
    report(results, args.orders, args.rounds)


def generate(orders: int, inputs: Path) -> None:
    """Write both streams, one Parquet file a batch; the same rows for the same number of orders."""
    unfinished = inputs.with_name(f"{inputs.name}-unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")

    def chance(seed: int) -> str:
        return f"((hash(order_id * 31 + {seed}) % 1000000) / 1000000.0)"

    start = "TIMESTAMPTZ '2026-01-01 00:00:00+00'"
    db.execute(f"""CREATE TABLE orders AS
        SELECT range AS order_id, {start} + to_microseconds(range * 5000) AS order_time,
               'customer-' || (range % 10007) AS customer, (range * 7919) % 20000 AS cents
        FROM range({orders})""")
    db.execute(f"""CREATE TABLE deliveries AS
        SELECT order_id AS delivery_id, order_id AS delivered_order_id,
               order_time + to_microseconds(({chance(1)} * 5400000000)::BIGINT) AS delivery_time,
               'courier-' || (order_id % 101) AS courier
        FROM orders WHERE {chance(2)} < 0.9""")
    for table, row_id, event_time in (
        ("orders", "order_id", "order_time"),
        ("deliveries", "delivery_id", "delivery_time"),
    ):
        folder = unfinished / table
        folder.mkdir(parents=True)
        arrival = f"{event_time} + to_microseconds((hash({row_id} * 31 + 3) % 10000000)::BIGINT)"
        db.execute(f"""CREATE TABLE {table}_cut AS
            SELECT *, ntile({BATCHES}) OVER (ORDER BY {arrival}, {row_id}) - 1 AS batch,
                   {arrival} AS arrival FROM {table}""")
        for batch in range(BATCHES):
            rows = f"SELECT * EXCLUDE (batch, arrival) FROM {table}_cut WHERE batch = {batch} ORDER BY arrival"
            db.execute(f"COPY ({rows}) TO '{folder}/{batch:02}.parquet' (FORMAT parquet)")
            time.sleep(0.02)  # Spark's file source takes files in the order of their modification times.
    far = f"{start} + INTERVAL 30 DAYS"
    db.execute(
        f"COPY (SELECT -1::BIGINT AS order_id, {far} AS order_time, '' AS customer, 0::BIGINT AS cents) "
        f"TO '{unfinished}/orders/{BATCHES}.parquet' (FORMAT parquet)"
    )
    db.execute(
        f"COPY (SELECT -1::BIGINT AS delivery_id, -2::BIGINT AS delivered_order_id, {far} AS delivery_time, "
        f"'' AS courier) TO '{unfinished}/deliveries/{BATCHES}.parquet' (FORMAT parquet)"
    )
    unfinished.rename(inputs)


def counts(inputs: Path) -> list[int]:
    """Return how many rows, and how many with a delivery, DuckDB's batch join has."""
    row = duckdb.execute(f"""
        SELECT count(*), count(delivery_id)
        FROM (FROM '{inputs}/orders/*.parquet' WHERE order_id >= 0) LEFT JOIN '{inputs}/deliveries/*.parquet'
        ON order_id = delivered_order_id
           AND delivery_time BETWEEN order_time AND order_time + INTERVAL 1 HOUR""").fetchone()
    assert row is not None
    return list(row)


def run_in_process(side: str, orders: int, work: Path) -> Result:
    """Run one side in a process of its own and return its result."""
    command = [sys.executable, __file__, "--run", side, "--orders", str(orders), "--work", str(work)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    result: Result = json.loads(done.stdout.splitlines()[-1])
    return result


def run_side(side: str, inputs: Path, work: Path) -> Result:
    """Run one side in this process."""
    engine, store = side.split("-")
    builder = (
        SparkSession.builder.master("local[2]")
        .appName(f"benchmark {side}")
        .config("spark.driver.memory", "4g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.numRecentProgressUpdates", "1000")
    )
    if store == "rocksdb":
        builder = builder.config("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    if engine == "streamjoin":
        import streamjoin as sj

        builder = sj.configure(builder)
    spark = builder.getOrCreate()
    totals = [0, 0, 0]

    def count(rows: DataFrame, _: int) -> None:
        row_hash = F.xxhash64(*rows.columns).bitwiseAND(F.lit(0xFFFFFFFF))
        found = rows.agg(F.count("*"), F.count("delivery_id"), F.coalesce(F.sum(row_hash), F.lit(0)))
        for i, value in enumerate(found.first() or ()):
            totals[i] += value

    checkpoint = work / "checkpoint"
    shutil.rmtree(checkpoint, ignore_errors=True)
    started = time.perf_counter()
    query = (
        joined(spark, inputs)
        .writeStream.foreachBatch(count)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    wall = time.perf_counter() - started
    batches = [batch for each in query.recentProgress if (batch := json.loads(each.json))["stateOperators"]]
    spark.stop()
    return {"side": side, "wall": wall, "counts": totals[:2], "hash": totals[2], **phases(batches)}


def joined(spark: SparkSession, inputs: Path) -> DataFrame:
    """Return the join that is measured."""
    orders = stream(spark, inputs / "orders").withWatermark("order_time", "10 seconds")
    deliveries = stream(spark, inputs / "deliveries").withWatermark("delivery_time", "10 seconds")
    condition = (
        "order_id = delivered_order_id "
        "AND delivery_time >= order_time AND delivery_time <= order_time + INTERVAL 1 HOUR"
    )
    return orders.join(deliveries, F.expr(condition), "left_outer")


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    """Return the stream of a folder, one file a batch."""
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def phases(batches: list[Result]) -> Result:
    """Return the seconds in batches and in their phases, and the most rows in state.

    Phases are those of the driver. Times of the operator are summed over tasks, two of which run at a time.
    """
    operators = [batch["stateOperators"][0] for batch in batches]

    def seconds(dicts: list[dict[str, float]], key: str) -> float:
        return sum(each.get(key, 0) for each in dicts) / 1000

    return {
        "batches": seconds([batch["durationMs"] for batch in batches], "triggerExecution"),
        "numBatches": len(batches),
        "phases": {key: seconds([batch["durationMs"] for batch in batches], key) for key in PHASES},
        "tasks": {key: seconds(operators, key) for key in TASK_TIMES}
        | {key: seconds([each.get("customMetrics", {}) for each in operators], key) for key in TASK_METRICS},
        "peakRows": max(each["numRowsTotal"] for each in operators),
        "operator": operators[0]["operatorName"],
    }


def report(results: list[Result], orders: int, rounds: int) -> None:
    """Print the table, and keep it with all results in ``benchmarks/results``."""
    by_side: dict[str, list[Result]] = {}
    for result in results:
        by_side.setdefault(result["side"], []).append(result)

    def median(side: str, *keys: str) -> float:
        values = []
        for result in by_side[side]:
            value: Any = result
            for key in keys:
                value = value[key]
            values.append(value)
        return float(statistics.median(values))

    base = median(next(iter(by_side)), "wall")
    lines = [
        f"{orders:,} orders, {rounds} rounds, median seconds; {platform.machine()}, local[2], "
        f"Python {platform.python_version()}",
        "",
        "| | " + " | ".join(by_side) + " |",
        "|---|" + "---:|" * len(by_side),
    ]

    def line(name: str, values: list[str]) -> None:
        lines.append(f"| {name} | " + " | ".join(values) + " |")

    line("operator", [runs[0]["operator"] for runs in by_side.values()])
    line("wall, median", [f"{median(side, 'wall'):.1f}" for side in by_side])
    line("wall, least", [f"{min(run['wall'] for run in runs):.1f}" for runs in by_side.values()])
    line(f"times faster than {next(iter(by_side))}", [f"{base / median(side, 'wall'):.2f}" for side in by_side])
    line("in batches", [f"{median(side, 'batches'):.1f}" for side in by_side])
    for key in PHASES:
        line(f"of it {key}", [f"{median(side, 'phases', key):.1f}" for side in by_side])
    for key in TASK_TIMES + TASK_METRICS:
        line(f"{key}, all tasks", [f"{median(side, 'tasks', key):.1f}" for side in by_side])
    line("batches", [f"{median(side, 'numBatches'):.0f}" for side in by_side])
    line("most rows in state", [f"{median(side, 'peakRows'):,.0f}" for side in by_side])
    table = "\n".join(lines)
    print(f"\n{table}\n\nThe same rows in every run: {results[0]['counts'][0]:,}")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"interval_join-{orders}.md").write_text(f"{table}\n")
    with (RESULTS / f"interval_join-{orders}.jsonl").open("w") as file:
        file.writelines(json.dumps(result) + "\n" for result in results)


if __name__ == "__main__":
    main()
