"""Temporal joins: ``python benchmarks/temporal.py``, and ``--smoke`` to try it in some minutes.

By event time, each order is joined with the price of its item when it was ordered: by streamjoin, by what a PySpark
user writes without it (``with_state.py``), and by the shuffle alone. Each run is a process of its own, in
turns, checked against DuckDB's as-of join and against the other sides, as in ``run.py``. By process time, a stream
is joined with the current table (``process_time.py``). Then the time of a batch by the size of what is kept
(``windows.py``), which needs about 16 GB. Each part has a page of its own in ``benchmarks/results``.
"""

import argparse
import shutil
from pathlib import Path

from harness import machine
from harness.changing import session
from harness.goals import goals, look_ups
from harness.measure import versions
from harness.process_time import ProcessTime, Sizes
from harness.report import environment, goals_table, section
from harness.runs import Runs, read
from harness.scenario import current
from harness.scenarios import scenarios
from harness.sides import TEMPORAL
from harness.windows import windows
from pyspark.sql import SparkSession
from run import Benchmark, plan

RESULTS = Path(__file__).with_name("results")
# The parts, and their pages.
PAGES = {"event": "temporal.md", "process": "look-ups.md", "windows": "windows.md"}
NAME = "temporal"


def main() -> None:
    """Measure what the command line selects, and write the tables."""
    options = parse_arguments()
    work = options.work.resolve()
    options.results.mkdir(parents=True, exist_ok=True)
    for part in options.parts:
        measure = {"event": event_time, "process": process_time, "windows": batches}[part]
        page = options.results / PAGES[part]
        page.write_text("\n\n".join(measure(options, work)) + "\n")
        print(page.read_text(), flush=True)


def parse_arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description="Temporal joins, by event time and by process time.")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each side (default: 3)")
    parser.add_argument("--parts", nargs="+", choices=PAGES, default=list(PAGES), help="what is measured")
    parser.add_argument("--sides", nargs="+", choices=TEMPORAL, help="of the join by event time, only these")
    parser.add_argument("--scale", type=float, default=1, help="of the million orders and the million prices")
    parser.add_argument("--limit", type=float, default=1800, help="seconds after which a run by event time is ended")
    parser.add_argument("--rows", type=int, default=5_000_000, help="of the table that is looked up")
    parser.add_argument("--changes", type=float, default=0.01, help="share of the table that changes in a minute")
    parser.add_argument("--minute", type=float, default=60, help="seconds of a minute")
    parser.add_argument("--batch-rows", type=int, default=100_000, help="rows of the stream in a batch")
    parser.add_argument("--seconds", type=float, default=90, help="for which a side looks up in a round")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--work", type=Path, default=Path("build/bench-temporal"))
    parser.add_argument("--smoke", action="store_true", help="all of it small, once, to see that it works")
    options = parser.parse_args()
    if options.smoke:
        small = {"rounds": 1, "scale": 0.002, "rows": 5000, "minute": 6, "batch_rows": 1000, "seconds": 8}
        vars(options).update(small)
        if options.results == RESULTS:
            options.results = options.work / "smoke"
    return options


def event_time(options: argparse.Namespace, work: Path) -> list[str]:
    """Run the sides of the temporal join; return its tables."""
    known = scenarios(options.scale)
    file = (options.results / PAGES["event"]).with_suffix(".jsonl")
    jobs = plan([known[NAME]], options.sides, options.rounds)
    Benchmark(jobs, options.scale, work, file, options.limit).run(resume=False)
    records = current(read(file), known)
    runs = Runs(records)
    size = "The goals are set for the full size." + ("" if options.scale == 1 else f" This is {options.scale:g} of it.")
    found = goals_table(goals(runs, known, {NAME}), {})
    return ["# Temporal joins", environment(records), size, found, *section(runs, known[NAME])]


def process_time(options: argparse.Namespace, work: Path) -> list[str]:
    """Run the sides that join the current table; return their table."""
    work = work / "process"
    shutil.rmtree(work, ignore_errors=True)
    spark = session(work)
    sizes = Sizes(options.rows, options.changes, options.minute, options.batch_rows, 2000, options.seconds)
    comparison = ProcessTime(spark, work, sizes)
    lines = comparison.measure(options.rounds)
    where = _where(spark)
    spark.stop()
    shutil.rmtree(work)
    found = goals_table([look_ups(comparison.speeds("sj.table"))], {})
    return ["# Look-ups in a table that changes", where, "\n".join(lines), found]


def batches(options: argparse.Namespace, work: Path) -> list[str]:
    """Run batches with small and large windows; return their table."""
    work = work / "windows"
    shutil.rmtree(work, ignore_errors=True)
    spark = session(work)
    lines = windows(spark, work, options.scale, options.rounds)
    where = _where(spark)
    spark.stop()
    shutil.rmtree(work)
    return ["# The time of a batch beside the window", where, "\n".join(lines)]


def _where(spark: SparkSession) -> str:
    """Return where, when and with what this command ran."""
    ran = machine.environment("python benchmarks/temporal.py", ["--work", "--results"]) | versions(spark)
    return environment([{"environment": ran}])


if __name__ == "__main__":
    main()
