"""The cost of reading one query of a long history: ``python benchmarks/history.py``, with ``--smoke`` for less.

It makes a history (``spark.streamjoin.history``) of many queries, one of which has had many batches, as the extension
writes it, and as an older version did. For that query, given by its checkpoint, it measures:

- a report, in a process of its own: how long, and the most memory;
- the first look of ``watch``, and each look after another batch: how long, and what it reads.

Medians of the looks. The table is in ``benchmarks/results/history.md``. No Spark runs.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.machine import described

from streamjoin.monitoring._sources import location_reader
from streamjoin.monitoring._terminal_table import as_text

RESULTS = Path(__file__).with_name("results") / "history.md"
GOAL_LOOK_MS, GOAL_REPORT_S, GOAL_REPORT_MB = 500, 3.0, 300
TASKS, LOOKS = 200, 20
START = 1_767_225_600_000


def figures(query: str, batch: int) -> dict[str, Any]:
    """Return the figures of a batch of a join in 200 tasks."""
    at = START + batch * 10_000

    def given(side: str, name: str, other: str) -> dict[str, Any]:
        column = {"name": f"{name}.t", "watermark": at - 10_000, "newest": at, "heldBy": name}
        buckets = [{"fromMs": 1 << each, "toMs": 2 << each, "rows": each + batch % 7} for each in range(12)]
        return {
            "side": side,
            "name": name,
            "rowsIn": 1000 + batch % 100,
            "rowsKept": 360_000,
            "bytesKept": 36_000_000,
            "late": batch % 3,
            "columns": [column],
            "oldest": at - 3_600_000,
            "leavesBy": f"{other}.t",
            "leavesAfter": at,
            "leaves": [{"time": f"{name}.t", "column": f"{other}.t", "postponeMs": 3_600_000}],
            "lateness": {"delayMs": 10_000, "buckets": buckets},
            "below": [],
            "hints": [],
        }

    pairs = [{"fromMs": 60_000 * each, "toMs": 60_000 * (each + 1), "pairs": 7 + each} for each in range(20)]
    operator = {
        "operator": 1,
        "kind": "interval_join",
        "title": "left outer interval join",
        "rowsOut": 1000,
        "late": 0,
        "padded": 12,
        "rowsKept": 720_000,
        "bytesKept": 72_000_000,
        "memoryBytes": 90_000_000,
        "phasesMs": {"commit": 120, "load": 3, "probe": 400},
        "tasks": {name: [1000 + (batch + each) % 97 for each in range(TASKS)] for name in ("rows", "bytes", "ms")},
        "distances": {"of": "deliveries.t - orders.t", "lowestMs": 0, "highestMs": 3_600_000, "buckets": pairs},
        "inputs": [given("left", "orders", "deliveries"), given("right", "deliveries", "orders")],
        "hints": [f"A batch takes {900 + batch % 50} ms, and the trigger starts one every 800 ms: batches queue."],
    }
    phases = {"addBatch": 700, "commitOffsets": 20, "queryPlanning": 80, "triggerExecution": 800 + batch % 50}
    return {
        "version": 1,
        "id": query,
        "runId": query,
        "name": "joined",
        "batch": batch,
        "timestamp": at,
        "triggerMs": 800,
        "phasesMs": phases,
        "operators": [operator],
    }


def sizes(batches: int) -> Iterator[int]:
    """Yield the lines of the extension's files for a number of batches: ten files of one size become one."""
    for size in (1000, 100, 10, 1):
        yield from [size] * (batches // size)
        batches %= size


def make(folder: Path, query: str, batches: int, old: bool) -> None:
    """Write the history of a query."""
    here = folder / query
    here.mkdir(parents=True)
    first = 0
    for many in [1000] * (batches // 1000) + [batches % 1000] * (batches % 1000 > 0) if old else sizes(batches):
        name = f"{first:010d}.jsonl" if old else f"{first:012d}-{many}-{START}.jsonl"
        lines = (json.dumps(figures(query, batch), separators=(",", ":")) for batch in range(first, first + many))
        (here / name).write_text("".join(f"{line}\n" for line in lines))
        first += many


class Opened:
    """The files below a folder that this process opens, and their bytes."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.files, self.bytes = str(folder), 0, 0
        sys.addaudithook(self._seen)

    def _seen(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and str(arguments[0]).startswith(self._folder) and "w" not in str(arguments[1]):
            self.files += 1
            self.bytes += Path(arguments[0]).stat().st_size

    def taken(self) -> tuple[int, int]:
        """Return the number of files and bytes since the last call."""
        found = (self.files, self.bytes)
        self.files = self.bytes = 0
        return found


def looks(folder: Path, checkpoint: Path, query: str, batches: int) -> tuple[list[float], list[tuple[int, int]]]:
    """Return the milliseconds of each look of ``watch``, and the files and bytes that it reads; the first one first."""
    opened = Opened(folder)
    latest = location_reader(str(checkpoint), str(folder), "benchmark")
    millis, read = [], []
    for number in range(LOOKS + 1):
        if number:
            line = json.dumps(figures(query, batches + number - 1), separators=(",", ":"))
            (folder / query / f"{batches + number - 1:012d}-1-{START}.jsonl").write_text(f"{line}\n")
        began = time.perf_counter()
        text = as_text(latest())
        millis.append((time.perf_counter() - began) * 1000)
        read.append(opened.taken())
        assert f"batch {batches + number - 1} of" in text
    return millis, read


def report(folder: Path, checkpoint: Path, to: Path) -> tuple[float, float]:
    """Return the seconds that a report takes in a process of its own, and its most memory in MB."""
    code = (
        "import resource, runpy, sys\n"
        "try: runpy.run_module('streamjoin', run_name='__main__')\n"
        "finally: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, "report", str(checkpoint), str(to), "--history", str(folder)]
    began = time.perf_counter()
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    took = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(done.stderr)
    return took, int(done.stderr.split()[-1]) * 1024 / 1e6


def main() -> None:
    """Measure, print the table and write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=10_000, help="of the query that is looked at")
    parser.add_argument("--queries", type=int, default=1_000, help="in the folder")
    parser.add_argument("--smoke", action="store_true", help="300 batches, 10 queries; no result is written")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.batches, arguments.queries = 300, 10
    lines = [
        f"# A query of {arguments.batches:,} batches in a history of {arguments.queries:,} queries",
        "",
        *described(),
        "",
        "| files | report, s | report, MB | first look, ms | it reads | a look, ms | it reads |",
        "|---|---|---|---|---|---|---|",
    ]
    met = True
    for old in (False, True):
        with tempfile.TemporaryDirectory() as made:
            folder, checkpoint, query = Path(made, "history"), Path(made, "checkpoint"), str(uuid.uuid4())
            checkpoint.mkdir()
            (checkpoint / "metadata").write_text(json.dumps({"id": query}))
            make(folder, query, arguments.batches, old)
            for _ in range(arguments.queries - 1):
                make(folder, str(uuid.uuid4()), 20, old)
            seconds, memory = report(folder, checkpoint, Path(made, "report.html"))
            millis, read = looks(folder, checkpoint, query, arguments.batches)
        later = statistics.median(millis[1:])
        met = met and (old or (later <= GOAL_LOOK_MS and seconds <= GOAL_REPORT_S and memory <= GOAL_REPORT_MB))
        first, then = (f"{files:,} files, {size / 1e6:,.1f} MB" for files, size in (read[0], max(read[1:])))
        kind = "of an older version" if old else "as they are written"
        lines.append(
            f"| {kind} | {seconds:.1f} | {memory:.0f} | {millis[0]:.0f} | {first} | {later:.0f} | at most {then} |"
        )
    lines += [
        "",
        f"Goals: a look {GOAL_LOOK_MS} ms, a report {GOAL_REPORT_S:g} s and {GOAL_REPORT_MB} MB: "
        f"{'met' if met else '**not met**'}.",
    ]
    print("\n".join(lines))
    if not arguments.smoke:
        RESULTS.write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
