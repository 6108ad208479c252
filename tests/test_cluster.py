"""Retried tasks, speculative tasks and a lost executor: every batch has the same rows."""

import json
import random
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from conftest import LONG, run
from queries import PROVIDERS, write_file

pytestmark = pytest.mark.skipif(not LONG, reason="a part of make test-long; AttemptsSuite has attempts at one task")

JOB = Path(__file__).with_name("jobs") / "cluster_job.py"
FILES = 8
START = datetime(2026, 1, 1, tzinfo=UTC)

Batches = dict[int, Counter[str]]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the three streams; a batch reads one file of each."""
    folder = tmp_path_factory.mktemp("files")
    chance = random.Random(11)
    for place, name in enumerate("odr"):
        for number in range(FILES):
            closing = number >= FILES - 2
            rows = [_row(name, -1 - place, 1000, -number)] if closing else _rows(name, place, number, chance)
            write_file(folder / name / f"{number}.json", rows, number)
    return folder


def _rows(name: str, place: int, number: int, chance: random.Random) -> list[dict[str, object]]:
    return [
        _row(name, chance.randrange(12), number * 10 + place * 5 + chance.uniform(-4, 6), number * 100 + i)
        for i in range(60)
    ]


def _row(name: str, key: int, seconds: float, row_id: int) -> dict[str, object]:
    moment = (START + timedelta(seconds=seconds)).isoformat()
    return {f"{name}k": key, f"{name}t": moment, f"{name}i": row_id}


def _run(files: Path, folder: Path, master: str, *more: str) -> tuple[Batches, dict[str, int]]:
    output = folder / "output"
    command = [sys.executable, str(JOB), f"--input={files}", f"--output={output}", f"--master={master}", *more]
    printed = run(command, {"PYSPARK_PYTHON": sys.executable})
    batches = {int(path.stem): Counter(json.loads(path.read_text())) for path in output.glob("*.json")}
    return batches, json.loads(printed.splitlines()[-1])


@pytest.fixture(scope="module")
def undisturbed(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Batches:
    """Return the rows of each batch of an undisturbed run."""
    batches, _ = _run(files, tmp_path_factory.mktemp("undisturbed"), "local[2]")
    assert len(batches) == FILES
    assert sum(batches.values(), Counter()).total() > 110 * FILES
    return batches


ROCKSDB = ("--conf", f"spark.sql.streaming.stateStore.providerClass={PROVIDERS['rocksdb']}")
DISTURBED: dict[str, tuple[str, ...]] = {
    "retry and executor, RocksDB": ("--disturb=retry,executor", *ROCKSDB),
    "retry": ("--disturb=retry",),
    "executor": ("--disturb=executor",),
    "executor, RocksDB": ("--disturb=executor", *ROCKSDB),
}


@pytest.mark.parametrize("disturbed", DISTURBED)
def test_tasks_retried_or_an_executor_lost(
    files: Path, undisturbed: Batches, cluster: str, tmp_path: Path, disturbed: str
) -> None:
    batches, seen = _run(files, tmp_path, cluster, *DISTURBED[disturbed])
    assert batches == undisturbed
    assert seen["late"] == 0
    assert seen["lost"] == ("executor" in disturbed)
    if "retry" in disturbed:
        # A task that the lost executor should have run has a second attempt too.
        assert seen["again"] >= seen["disturbed"] > 0
        assert seen["again"] == seen["disturbed"] or "executor" in disturbed


def test_tasks_speculated(files: Path, undisturbed: Batches, cluster: str, tmp_path: Path) -> None:
    batches, seen = _run(files, tmp_path, cluster, "--disturb=speculate")
    assert batches == undisturbed
    assert seen["late"] == 0 and seen["disturbed"] >= seen["again"] > 0
