"""Requests to an object store per batch: joins and arrangements, compared with Spark's own join.

``make bench-s3`` writes ``results/object-store.md``. Two streams of a hundred rows per batch, a file each; the
checkpoints are on an S3 server on this machine, which logs each request of Hadoop's own client. Times mean nothing
there, but requests do: an object store charges for them. A batch with rows is followed by one without, which evicts
rows; both are counted.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.machine import described
from harness.sides import BY_NAME, session
from pyspark.sql import functions as F  # noqa: N812

import streamjoin as sj

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from servers.s3 import IS_INSTALLED, Store  # noqa: E402

RESULTS = Path(__file__).resolve().parent / "results" / "object-store.md"
PARTITIONS = 4
FIRST, COUNTED, ROWS = 4, 10, 100
RUNS = [
    ("interval join", "spark-default"),
    ("interval join", "spark-rocksdb-v4"),
    ("interval join", "ours-default"),
    ("interval join", "ours-rocksdb"),
    ("arrangement", "ours-default"),
    ("delta join", "ours-default"),
]
METHODS = ("PUT", "GET", "HEAD", "POST", "DELETE")
_REQUEST = re.compile(r'"([A-Z]+) /streams')


def main() -> None:
    """Run all queries, one after the other, or the named one in this process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", nargs=2, metavar=("QUERY", "SIDE"), help="one of them, for the process of a side")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--settings", type=json.loads)
    args = parser.parse_args()
    if args.run:
        query, side = args.run
        print(json.dumps(run(query, side, args.work, args.log, args.settings)))
        return
    if not IS_INSTALLED:
        sys.exit("There is no server of S3: run make bench-s3.")
    found: list[tuple[str, str, Counter[str]]] = []
    for query, side in RUNS:
        found.append((query, side, measured(query, side)))
        print(table(found[-1:]).splitlines()[-1], flush=True)
    RESULTS.write_text(table(found))


def measured(query: str, side: str) -> Counter[str]:
    """Return the requests of ten batches, by method."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        store = Store(log)
        try:
            command = [sys.executable, __file__, "--run", query, side, "--work", folder, "--log", str(log)]
            ended = subprocess.run(
                [*command, "--settings", json.dumps(store.settings)], check=True, stdout=subprocess.PIPE, text=True
            )
        finally:
            store.stop()
        begin, end = json.loads(ended.stdout.splitlines()[-1])
        return Counter(_REQUEST.findall(log.read_bytes()[begin:end].decode()))


def run(query: str, side: str, folder: Path, log: Path, settings: dict[str, str]) -> tuple[int, int]:
    """Run a query; return the part of the server's log with the requests of the measured batches."""
    more = settings | {
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        # As with a trigger of some seconds: a waiting query rarely asks for a new version.
        "spark.sql.streaming.pollingDelay": "3s",
        "spark.streamjoin.arrangements": "s3a://streams/arrangements",
    }
    spark = session(BY_NAME[side], more)
    schema = "id INT, at TIMESTAMP"
    for name in ("a", "b"):
        (folder / name).mkdir()
    streams = {name: spark.readStream.schema(schema).json(str(folder / name)) for name in ("a", "b")}
    running: list[Any] = []

    def start(writer: Any, name: str) -> None:
        running.append(writer.option("checkpointLocation", f"s3a://streams/checkpoints/{name}").start())

    if query == "interval join":
        a, b = (rows.alias(name).withWatermark("at", "1 minute") for name, rows in streams.items())
        condition = "a.id = b.id AND b.at BETWEEN a.at AND a.at + INTERVAL 5 MINUTES"
        start(a.join(b, F.expr(condition)).writeStream.format("noop"), "join")
    else:
        for name, rows in streams.items() if query == "delta join" else [("a", streams["a"])]:
            start(sj.arrange(rows, name, keys="id"), name)
    add(folder, 0)
    settle(running)
    if query == "delta join":
        start(sj.delta_join({"a": "a", "b": "b"}, "a.id = b.id", ["a.id"]).writeStream.format("noop"), "delta")
    for number in range(1, FIRST):
        add(folder, number)
        settle(running)
    # The requests of its idle triggers do not belong to a batch.
    begin = size_of(log)
    for number in range(FIRST, FIRST + COUNTED):
        add(folder, number)
        settle(running)
    end = size_of(log)
    for each in running:
        each.stop()
    spark.stop()
    return begin, end


def settle(running: list[Any]) -> None:
    """Wait until each query has read everything that the previous one has written."""
    for query in running:
        query.processAllAvailable()


def add(folder: Path, number: int) -> None:
    """Add a file of a hundred rows to each input, ten minutes of event time after the last one."""
    minutes = 10 * number
    at = f"2026-01-01T{minutes // 60:02}:{minutes % 60:02}:00Z"
    text = "\n".join(json.dumps({"id": number * ROWS + i, "at": at}) for i in range(ROWS))
    for name in ("a", "b"):
        hidden = folder / name / f"_{number}.json"
        hidden.write_text(text)
        hidden.rename(folder / name / f"{number}.json")


def size_of(log: Path) -> int:
    """Return the length of the log, once the server has written all of it."""
    time.sleep(1)
    return log.stat().st_size


def table(found: list[tuple[str, str, Counter[str]]]) -> str:
    """Return the requests per batch as a page."""
    lines = [
        "# Requests to an object store",
        "",
        f"`make bench-s3`, {datetime.now(UTC):%Y-%m-%d}. Requests to S3 a batch of {ROWS} rows of each input, with the",
        f"batch without rows that follows it; {PARTITIONS} tasks; the mean of {COUNTED} batches. Of the delta join, of",
        "all three queries.",
        "",
        *described(),
        "",
        f"| query | side | {' | '.join(METHODS)} | all |",
        "|---|---|" + "---:|" * (len(METHODS) + 1),
    ]
    for query, side, counts in found:
        cells = [*(counts[method] for method in METHODS), sum(counts.values())]
        lines.append(f"| {query} | {side} | " + " | ".join(f"{cell / COUNTED:.1f}" for cell in cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
