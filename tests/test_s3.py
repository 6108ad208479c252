"""Checkpoints and arrangements on S3, by Hadoop's own client and a server on this machine: ``make test-s3``."""

import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import LINE, LINES, ROOT, without_spark
from processes import Job
from queries import write_file
from servers.s3 import IS_INSTALLED, Store

JOB = ROOT / "tests" / "jobs" / "s3_job.py"
FILES = 12
ROWS = 10

pytestmark = [
    pytest.mark.skipif(not IS_INSTALLED, reason="no client of S3, no server: make test-s3"),
    pytest.mark.skipif(not LINES[LINE].is_default, reason="the client of S3 is for the default line's Hadoop"),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    server = Store(tmp_path_factory.mktemp("s3") / "log")
    yield server
    server.stop()


class Run:
    """Two folders of files, and the processes that join them; every third order has no delivery."""

    def __init__(self, store: Store, folder: Path, name: str) -> None:
        self.folder = folder
        for number in range(FILES):
            ids = range(number * ROWS, (number + 1) * ROWS)
            time_of = f"2026-01-01T10:{number:02}"
            self._add("orders", number, [{"id": i, "ordered": f"{time_of}:0{i % ROWS}Z"} for i in ids])
            delivered = [{"order_id": i, "delivered": f"{time_of}:3{i % ROWS}Z"} for i in ids if i % 3]
            self._add("deliveries", number, delivered)
        far = "2026-01-01T20:00:00Z"
        self._add("orders", FILES, [{"id": -1, "ordered": far}])
        self._add("deliveries", FILES, [{"order_id": -2, "delivered": far}])
        self.store, self.name = store, name
        self.use()

    def use(self, settings: dict[str, str] | None = None) -> None:
        """Give the next processes these settings."""
        name, folder = self.name, self.folder
        command = [sys.executable, str(JOB), f"--input={folder}", f"--output={folder}", f"--store=s3a://streams/{name}"]
        conf = self.store.settings | (settings or {})
        command += ["--conf", *(f"{k}={v}" for k, v in conf.items()), "--queries"]
        self.job = Job(command, folder / "log", without_spark() | {"PYSPARK_PYTHON": sys.executable})

    def _add(self, side: str, number: int, rows: list[dict[str, object]]) -> None:
        write_file(self.folder / side / f"{number}.json", rows, number)

    def attempts(self, query: str) -> dict[int, list[Path]]:
        return {int(batch.name): list(batch.glob("*.json")) for batch in (self.folder / query).glob("*")}

    def rows(self, query: str) -> Counter[str]:
        """Return all rows; a batch that ran several times had the same rows each time."""
        found: Counter[str] = Counter()
        for batch, files in self.attempts(query).items():
            first, *others = [json.loads(file.read_text()) for file in files]
            assert all(other == first for other in others), f"{query}, batch {batch}"
            found.update(first)
        return found


PAIRS = Counter(repr((i, i if i % 3 else None)) for i in range(FILES * ROWS))
DELIVERED = Counter(repr((i, 1)) for i in range(FILES * ROWS) if i % 3)


def killed(of: Run, *queries: str, batches: int) -> None:
    """Kill a process once so many batches of its last query have their rows."""
    assert of.job.kill(lambda: len(of.attempts(queries[-1])) >= batches, *queries)


def test_an_interval_join_that_is_killed(store: Store, tmp_path: Path) -> None:
    of = Run(store, tmp_path, "killed")
    for batches in (2, 5, 9):
        killed(of, "interval", batches=batches)
    of.job.finish("interval")
    assert of.rows("interval") == PAIRS


def test_a_take_over_that_is_killed(store: Store, tmp_path: Path) -> None:
    """Spark's own join begins, ours continues, each killed; then ours needs no permission any more."""
    of = Run(store, tmp_path, "taken-over")
    of.use({"spark.streamjoin.enabled": "false"})
    killed(of, "interval", batches=4)
    assert not store.has_got("taken-over/checkpoints/interval/stream-joins/0")
    of.use({"spark.streamjoin.evolve": "exact"})
    # The batch that Spark's own join may have planned is still its own.
    killed(of, "interval", batches=8)
    assert store.has_got("taken-over/checkpoints/interval/stream-joins/0")
    of.use()
    of.job.finish("interval")
    assert of.rows("interval") == PAIRS


def test_arrangements_a_delta_join_and_a_look_up(store: Store, tmp_path: Path) -> None:
    of = Run(store, tmp_path, "arranged")
    queries = ("orders", "deliveries", "delta", "look-up")
    killed(of, *queries, batches=3)
    of.job.finish(*queries)
    assert of.rows("delta") == DELIVERED
    expected = Counter(repr((i, i)) for i in range(FILES * ROWS) if i % 3)
    assert of.rows("look-up") == expected + Counter([repr((-2, None))])


def ended_twice(of: Run, query: str) -> list[int]:
    """Run a query in two processes at once; return their exit codes."""
    both = [of.job.start(query) for _ in range(2)]
    return [process.wait(timeout=600) for process in both]


def test_two_drivers_of_one_query(store: Store, tmp_path: Path) -> None:
    """Of two processes with one checkpoint, at least one ends with an error; no batch has two answers."""
    of = Run(store, tmp_path, "twice")
    ended = ended_twice(of, "interval")
    assert ended != [0, 0] or len({file.name for files in of.attempts("interval").values() for file in files}) == 1
    of.job.finish("interval")
    assert of.rows("interval") == PAIRS


def test_two_maintainers_of_one_arrangement(store: Store, tmp_path: Path) -> None:
    of = Run(store, tmp_path, "maintained-twice")
    assert ended_twice(of, "orders") != [0, 0], "one is fenced off"
    of.job.finish("orders", "deliveries", "delta")
    assert of.rows("delta") == DELIVERED


@pytest.mark.parametrize("query", ["interval", "orders"])
def test_a_driver_that_was_thought_dead_and_writes_on(store: Store, tmp_path: Path, query: str) -> None:
    of = Run(store, tmp_path, f"dead-{query}")
    dead = of.job.start(query)
    written = "checkpoints/interval/commits/3" if query == "interval" else "arrangements/orders/versions/3"
    end = time.monotonic() + 900
    while not store.has_got(f"dead-{query}/{written}"):
        assert dead.poll() is None and time.monotonic() < end
        time.sleep(0.01)
    os.killpg(dead.pid, signal.SIGSTOP)
    try:
        of.job.finish(query)
    finally:
        os.killpg(dead.pid, signal.SIGCONT)
    assert dead.wait(timeout=900) != 0
    if query == "interval":
        assert of.rows("interval") == PAIRS
    else:
        of.job.finish("orders", "deliveries", "delta")
        assert of.rows("delta") == DELIVERED
