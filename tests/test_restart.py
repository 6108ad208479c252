"""A query that is stopped, or killed inside a batch, and continues in a new process neither loses nor doubles a row.

The same files, one of each side per batch, are joined by a process that runs to the end, by processes that end after
every few batches, and by processes that are killed (SIGKILL, the JVM too), twice at a chosen point of a batch and then
at random. The joins are those of ``jobs/join_job.py``: several at once, in one process, because starting Spark takes
longest.
"""

import json
import os
import random
import shutil
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from conftest import LONG, printed_seed
from processes import Job
from queries import write_file

JOB = Path(__file__).with_name("jobs") / "join_job.py"
# A full outer join pads the left rows as a left outer join does, and an anti join remembers matches
# as a semi join does.
TYPES = [*(["left_outer", "left_semi"] if LONG else []), "full_outer", "left_anti"]
# A chain of three, a window join, a temporal and an as-of join keep rows for several batches.
IN_ORDER = ["window", "temporal", "asof"]
# So does a join in which each row carries the time at which it leaves.
LASTING = ["chain", *IN_ORDER, *(["carried_outer"] if LONG else [])]
KILLS = int(os.environ.get("STREAMJOIN_KILLS", "1"))
FILES = max(14, 2 * KILLS + 4) if LONG else 12
START = datetime(2026, 1, 1, tzinfo=UTC)

ONLY_LONG = pytest.mark.skipif(not LONG, reason="a part of make test-long")

Row = dict[str, object]
Batches = dict[int, Counter[str]]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with all files of the three inputs."""
    folder = tmp_path_factory.mktemp("files")
    chance = random.Random(4)
    for side in ("left", "right", "third"):
        for number in range(FILES):
            rows = _closing(side[0], number) if number >= FILES - 2 else _rows(side[0], number, chance)
            write_file(folder / side / f"{number}.json", rows, number)
    return folder


def _rows(prefix: str, number: int, chance: random.Random) -> list[Row]:
    """Return rows of ten seconds; none is more than five seconds behind those of the file before."""
    rows = []
    for i in range(15):
        seconds = number * 10 + chance.uniform(-4.9, 10)
        if number > 5 and i == 0:
            seconds = -500  # late in any case: it is behind all rows of the first file
        row_id = {"l": 0, "r": 10_000, "t": 20_000}[prefix] + number * 100 + i
        key = chance.choice([0, 1, 2, 3, None])
        rows.append(_row(prefix, key, seconds, chance.randrange(10), row_id))
    return rows


def _closing(prefix: str, number: int) -> list[Row]:
    """Return the row that moves the watermark past all others.

    It comes in two files: a query that is stopped between the first one's batch and the next still gets another batch.
    """
    return [_row(prefix, {"l": -1, "r": -2, "t": -3}[prefix], FILES * 10 + 1000, 0, -number)]


def _row(prefix: str, key: int | None, seconds: float, value: int, row_id: int) -> Row:
    event_time = (START + timedelta(seconds=seconds)).isoformat()
    return {f"{prefix}k": key, f"{prefix}t": event_time, f"{prefix}v": value, f"{prefix}id": row_id}


class Runs:
    """The runs of one query of each type, each over its own checkpoint."""

    def __init__(self, files: Path, folder: Path, types: list[str]) -> None:
        self.types = types
        self.output = folder / "output"
        command = [sys.executable, str(JOB), f"--input={files}", f"--output={self.output}"]
        command += [f"--checkpoints={folder / 'checkpoints'}", "--types", *types]
        self.job = Job(command, folder / "log")

    def kill_at(self, point: str, *more: str) -> None:
        """Kill a process once every query has reached a point such as ``before:3``."""
        shutil.rmtree(self.output / "paused", ignore_errors=True)
        self.job.kill(lambda: len(list(self.output.glob("paused/*"))) == len(self.types), f"--pause={point}", *more)

    def kill_after(self, delay: float, *more: str) -> None:
        """Kill a process ``delay`` seconds after it has written something."""
        before = len(self.written())
        self.job.kill(lambda: len(self.written()) > before, *more, delay=delay)

    def written(self) -> list[Path]:
        """Return the files of all attempts at all batches."""
        return list(self.output.glob("*/*/*.json"))

    def batches(self, how: str) -> Batches:
        """Return the rows of every batch; all attempts at a batch must have had the same."""
        batches: Batches = {}
        for path in sorted(self.output.glob(f"{how}/*/*.json")):
            rows = Counter(json.loads(path.read_text()))
            batch = int(path.parent.name)
            assert batches.setdefault(batch, rows) == rows, f"{how}: batch {batch} run again gave other rows"
        return batches

    def rowtimes(self, how: str) -> list[int]:
        """Return the rowtimes of a join in the order of its output."""
        first = {int(path.parent.name): path for path in sorted(self.output.glob(f"{how}/*/*.json"))}
        rows = (json.loads(row) for batch in sorted(first) for row in json.loads(first[batch].read_text()))
        return [row["rowtime"] for row in rows if "rowtime" in row]


@pytest.fixture(scope="module")
def uninterrupted(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Return the runs of a process that was not interrupted."""
    runs = Runs(files, tmp_path_factory.mktemp("uninterrupted"), TYPES + LASTING)
    runs.job.finish()
    for how in runs.types:
        assert _total(runs.batches(how)).total() > 20, f"{how}: there is too little to compare"
    return runs


@ONLY_LONG
def test_new_process_every_few_batches(files: Path, uninterrupted: Runs, tmp_path: Path) -> None:
    inputs = tmp_path / "input"
    runs = Runs(inputs, tmp_path, TYPES)
    for upto in (4, 8, FILES) if LONG else (5, FILES):
        for side in ("left", "right"):
            (inputs / side).mkdir(parents=True, exist_ok=True)
            for number in range(upto):
                shutil.copy2(files / side / f"{number}.json", inputs / side)
        # Without no-data batches, batch N reads file N here too, whenever a process ends.
        runs.job.finish("--only-data-batches")
    _compare(runs, uninterrupted, same_batches=FILES)


# If changing, each process has other partitions and another state store, so its first batch
# writes all state again. That batch is killed, or one of the next.
@pytest.mark.parametrize("changing", [False, pytest.param(True, marks=ONLY_LONG)])
def test_killed_again_and_again(files: Path, uninterrupted: Runs, tmp_path: Path, changing: bool) -> None:
    seed = printed_seed()
    chance = random.Random(seed)
    runs = Runs(files, tmp_path, TYPES + LASTING)

    def settings() -> list[str]:
        return other_state(chance) if changing else []

    runs.kill_at("before:2", *settings())
    runs.kill_at("after:5", *settings())
    for _ in range(KILLS - 2):
        runs.kill_after(chance.uniform(0, 0.5), *settings())
    before = len(runs.batches("chain"))
    runs.job.finish(*settings())
    assert before < len(runs.batches("chain")), "it had ended before the last kill"
    # Spark's file source logs the files of a batch before the batch itself is logged. After a kill
    # in between, it takes two files for the next batch: after random kills the batches are cut
    # differently.
    _compare(runs, uninterrupted, same_batches=6)
    for how in LASTING:
        assert _total(runs.batches(how)) == _total(uninterrupted.batches(how)), how
    for how in IN_ORDER:
        for each in (uninterrupted, runs):
            assert each.rowtimes(how) == sorted(each.rowtimes(how)), how
    attempts = len(runs.written()) - sum(len(runs.batches(how)) for how in runs.types)
    print(f"{KILLS} kills, {len(runs.batches('chain'))} batches of the chain, {attempts} of all were done again")


def other_state(chance: random.Random) -> list[str]:
    """Return arguments that set a number of partitions and a state store."""
    store = chance.choice(["HDFSBackedStateStoreProvider", "RocksDBStateStoreProvider"])
    return [
        "--conf",
        f"spark.streamjoin.partitions={chance.randint(1, 5)}",
        f"spark.sql.streaming.stateStore.providerClass=org.apache.spark.sql.execution.streaming.state.{store}",
    ]


def _compare(runs: Runs, uninterrupted: Runs, same_batches: int) -> None:
    """Compare all rows, and the first batches one by one."""
    for how in TYPES:
        actual, expected = runs.batches(how), uninterrupted.batches(how)
        assert _total(actual) == _total(expected), f"{how}: the rows differ"
        # A new process may repeat a watermark, which lets a row wait longer for a match, but never
        # exceed one: matches come in the same batch, unmatched rows in the same or a later one.
        for batch in range(same_batches):
            assert _matched(how, actual, batch) == _matched(how, expected, batch), f"{how}: batch {batch}"
            early = _total(actual, batch) - _total(expected, batch)
            assert not early, f"{how}: batch {batch} or one before gave {early} too early"


def _total(batches: Batches, upto: float = float("inf")) -> Counter[str]:
    return sum((rows for batch, rows in batches.items() if batch <= upto), Counter())


def _matched(how: str, batches: Batches, batch: int) -> Counter[str]:
    def is_match(row: str) -> bool:
        return how == "left_semi" or ("lid" in json.loads(row) and "rid" in json.loads(row))

    return Counter({row: n for row, n in batches.get(batch, Counter()).items() if is_match(row)})
