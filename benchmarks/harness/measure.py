"""One run of one side in this process: the result is the last line of the output, as JSON.

``run.py`` starts it. The sink discards all rows.
"""

import argparse
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from harness.again import again, first_after
from harness.cpu import CpuTime
from harness.inputs import Streams
from harness.query import executed, files, jvm, observed, query_rows, rows_out, totals
from harness.rates import highest_rate
from harness.runs import Record
from harness.scenario import Scenario
from harness.scenarios import scenarios
from harness.sides import BY_NAME, Side, session

DURATIONS = ["triggerExecution", "latestOffset", "queryPlanning", "addBatch", "walCommit", "commitOffsets"]
# For so long a process runs its query before its batches count as warm: the compiler of a JVM on
# two cores is busy for about as long. And for so long at least, warm batches are measured.
WARM_UP_SECONDS = 120
WARM_SECONDS = 60
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
    parser.add_argument("--check", action="store_true", help="of a query that runs again and again, check all columns")
    args = parser.parse_args()
    scenario = scenarios(args.scale)[args.scenario]
    inputs = scenario.streams.folder(args.work)
    checkpoint = args.work / "checkpoint"
    if args.part != "continue":
        shutil.rmtree(checkpoint, ignore_errors=True)
    if args.part != "whole":
        inputs = arrived(scenario.streams, inputs, args.work / "arrived", args.part == "continue")
    conf = dict(setting.split("=", 1) for setting in args.conf)
    record = run(scenario, BY_NAME[args.side], conf, inputs, checkpoint, min(args.scale, 1), args.check)
    if args.part != "begin":
        shutil.rmtree(checkpoint, ignore_errors=True)
    print(json.dumps(record))


def arrived(streams: Streams, inputs: Path, folder: Path, everything: bool) -> Path:
    """Return a folder with links to the first two thirds of the files, or to all."""
    if not everything:
        shutil.rmtree(folder, ignore_errors=True)
    for table in streams.tables:
        found = sorted((inputs / table.name).iterdir())
        (folder / table.name).mkdir(parents=True, exist_ok=True)
        for file in found if everything else found[: len(found) * 2 // 3]:
            link = folder / table.name / file.name
            if not link.exists():
                link.hardlink_to(file)
    return folder


def run(
    scenario: Scenario,
    side: Side,
    conf: dict[str, str],
    inputs: Path,
    checkpoint: Path,
    share: float,
    check: bool = False,
) -> Record:
    """Do a run, and return what it did.

    Args:
        scenario: what to run.
        side: the side that runs it.
        conf: settings of this run, in addition to those of the side.
        inputs: the folder with the folders of all streams.
        checkpoint: where the query keeps its checkpoint, or those of all its runs.
        share: of the seconds for which a scenario warms up and is measured, if it warms up.
        check: whether one more run, of which no time is taken, observes all columns, if it warms up.
    """
    more = {"spark.sql.shuffle.partitions": str(scenario.partitions)}
    if scenario.kind == "cpu":
        more |= CpuTime.SETTINGS
    spark = session(side, more | conf)
    if scenario.kind == "rate":
        record = highest_rate(spark, scenario, side, checkpoint)
    elif scenario.warms_up:
        measured = cpu_once_warm if scenario.kind == "cpu" else cold_and_warm
        record = measured(partial(whole_input, spark, scenario, side, inputs), checkpoint, scenario, share)
        if check:
            record |= checked(whole_input(spark, scenario, side, inputs, checkpoint / "check", observe=True), record)
    else:
        record = whole_input(spark, scenario, side, inputs, checkpoint, observe=True)
    record |= {"conf": conf, "versions": versions(spark)}
    spark.stop()
    return record


def cold_and_warm(once: Callable[[Path], Record], work: Path, scenario: Scenario, share: float) -> Record:
    """Run the query again and again, until enough warm batches are measured.

    Args:
        once: a run with its checkpoint in a folder.
        work: the folder for these.
        scenario: that is measured.
        share: of the seconds for which it warms up and is measured.

    Returns:
        The record of the first run, with the figures of these batches as ``warm``.
    """
    first: Record = {}
    kept: dict[str, list[float]] = {}
    for begun, record in again(once, work, ["rowsOut"]):
        first = first or record
        for name, values in warm_batches(scenario, record["batches"], WARM_UP_SECONDS * share - begun).items():
            kept.setdefault(name, []).extend(values)
        if sum(kept["triggerExecution"]) >= 1000 * WARM_SECONDS * share:
            break
    return first | {"warm": {"batches": kept}}


def cpu_once_warm(once: Callable[..., Record], work: Path, scenario: Scenario, share: float) -> Record:
    """Run the query again and again until the process has warmed up, and return the CPU time of one more run."""
    assert scenario.measured, "no batches to measure"
    for begun, record in again(once, work, ["rowsOut"]):
        if begun + record["wall"] >= WARM_UP_SECONDS * share:
            break
    return once(work / "measured", cpu=scenario.measured)


def checked(record: Record, others: Record) -> Record:
    """Return what a run observed, after a comparison with a run that did not: an observation takes time, too."""
    if record["rowsOut"] != others["rowsOut"]:
        sys.exit(f"{others['rowsOut']} rows while it was timed, {record['rowsOut']} in a run that observes them")
    return {name: record[name] for name in ("counts", "hash")}


def warm_batches(scenario: Scenario, batches: dict[str, list[float]], warm_up: float) -> dict[str, list[float]]:
    """Return the figures of the steady batches of a run that began after a time, in seconds from its beginning."""
    first = first_after(batches["triggerExecution"], warm_up)
    chosen = [at for at in scenario.steady(batches["numInputRows"]) if at >= first]
    return {name: [values[at] for at in chosen] for name, values in batches.items()}


def whole_input(
    spark: SparkSession,
    scenario: Scenario,
    side: Side,
    inputs: Path,
    checkpoint: Path,
    observe: bool = False,
    cpu: tuple[int, int] | None = None,
) -> Record:
    """Run the query to the end of its input.

    Args:
        spark: the session.
        scenario: what to run.
        side: the side that runs it.
        inputs: the folder with the folders of all streams.
        checkpoint: where the query keeps its checkpoint.
        observe: whether an observation counts the rows and sums up hashes of all columns. Otherwise the sink alone
            counts the rows.
        cpu: the batches of which the CPU time is measured, if it is.
    """
    rows = query_rows(scenario, side, files(spark, scenario.streams, inputs))
    if observe:
        rows = observed(rows, scenario.streams.tables[-1].row_id)
    started = time.perf_counter()
    query = (
        rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    )
    heap = peak_heap(spark, query) if scenario.kind == "memory" else None
    spent = CpuTime(spark, checkpoint.parent).of(query, cpu) if cpu else None
    query.awaitTermination()
    wall = time.perf_counter() - started
    batches = executed(query)
    sizes = file_sizes(checkpoint / "state")
    return (seen(batches) if observe else {}) | {
        "wall": wall,
        "rowsOut": rows_out(batches),
        "operator": next((each["operatorName"] for batch in batches for each in batch["stateOperators"]), None),
        "inputRows": sum(batch["numInputRows"] for batch in batches),
        "batches": columns(batches),
        "stateFiles": len(sizes),
        "stateFilesBytes": sum(sizes),
        "peakHeapBytes": heap,
        "cpu": spent,
    }


def file_sizes(folder: Path) -> list[int]:
    """Return the bytes of each file below a folder, in which the maintenance of the state may still remove some."""
    sizes = []
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            if path.is_file():
                sizes.append(path.stat().st_size)
    return sizes


def seen(batches: list[Record]) -> Record:
    """Return what the batches observed."""
    return {
        "counts": [sum(totals(batch, name) for batch in batches) for name in ("rows", "matched")],
        "hash": sum(totals(batch, "hash") for batch in batches),
    }


def columns(batches: list[Record]) -> dict[str, list[float]]:
    """Return a dict of figures, each with a value per batch, without those that no batch has.

    Times are in milliseconds. Those of the driver are durations, those of the operators sums over their tasks, two of
    which run at a time. A query with several joins has the sums over these.
    """
    operators = [_sums(batch["stateOperators"]) for batch in batches]
    custom = [_sums([operator.get("customMetrics", {}) for operator in batch["stateOperators"]]) for batch in batches]
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


def _sums(dicts: list[Record]) -> dict[str, float]:
    """Return the sum of each number in some dicts."""
    names = {name for values in dicts for name, value in values.items() if isinstance(value, int | float)}
    return {name: sum(values.get(name, 0) for values in dicts) for name in names}


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
    """Return the bytes of the heap that a collection leaves in use, without what is allocated after it.

    A collector may skip ``System.gc()``: G1 does while native code has the address of an array, such as a decompressor
    in a task. So it is called until the collector of the old generation has run.
    """
    virtual_machine = jvm(spark)
    management = virtual_machine.java.lang.management.ManagementFactory
    *_, full = management.getGarbageCollectorMXBeans()
    before = full.getCollectionCount()
    while full.getCollectionCount() == before:
        virtual_machine.java.lang.System.gc()
    pools = [each for each in management.getMemoryPoolMXBeans() if each.getType().name() == "HEAP"]
    return sum(each.getCollectionUsage().getUsed() for each in pools)


def versions(spark: SparkSession) -> dict[str, str]:
    """Return the versions of what runs."""
    return {
        "Spark": spark.version,
        "Java": str(jvm(spark).java.lang.System.getProperty("java.version")),
        "Python": platform.python_version(),
    }


if __name__ == "__main__":
    main()
