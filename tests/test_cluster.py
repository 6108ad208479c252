"""Tasks that are retried, tasks that run twice, an executor that is lost: every batch has the same rows.

The cluster is Spark's own for tests: a master, two workers and two executors, which are processes of this machine.
"""

import contextlib
import json
import os
import random
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyspark
import pytest
from conftest import LONG, run, spark_home

JOB = Path(__file__).with_name("jobs") / "cluster_job.py"
FILES = 8
START = datetime(2026, 1, 1, tzinfo=UTC)

Batches = dict[int, Counter[str]]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the three streams, one file of each a batch."""
    folder = tmp_path_factory.mktemp("files")
    chance = random.Random(11)
    for place, name in enumerate("odr"):
        (folder / name).mkdir()
        for number in range(FILES):
            closing = number >= FILES - 2
            rows = [_row(name, -1 - place, 1000, -number)] if closing else _rows(name, place, number, chance)
            path = folder / name / f"{number}.json"
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
            os.utime(path, (START.timestamp() + number,) * 2)
    return folder


def _rows(name: str, place: int, number: int, chance: random.Random) -> list[dict[str, object]]:
    return [
        _row(name, chance.randrange(12), number * 10 + place * 5 + chance.uniform(-4, 6), number * 100 + i)
        for i in range(60)
    ]


def _row(name: str, key: int, seconds: float, row_id: int) -> dict[str, object]:
    moment = (START + timedelta(seconds=seconds)).isoformat()
    return {f"{name}k": key, f"{name}t": moment, f"{name}i": row_id}


def _run(files: Path, folder: Path, disturb: str, *more: str) -> tuple[Batches, dict[str, int]]:
    output = folder / "output"
    command = [sys.executable, str(JOB), f"--input={files}", f"--output={output}", f"--disturb={disturb}", *more]
    printed = run(command, {"SPARK_HOME": str(spark_home(folder)), "PYSPARK_PYTHON": sys.executable})
    batches = {int(path.stem): Counter(json.loads(path.read_text())) for path in output.glob("*.json")}
    return batches, json.loads(printed.splitlines()[-1])


@pytest.fixture(scope="module")
def undisturbed(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Batches:
    """Return the rows of each batch of a run in which nothing goes wrong."""
    batches, _ = _run(files, tmp_path_factory.mktemp("undisturbed"), "nothing")
    assert len(batches) == FILES
    assert sum(batches.values(), Counter()).total() > 300
    return batches


ROCKSDB = (
    "--conf",
    "spark.sql.streaming.stateStore.providerClass="
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
)


# The other tests use the default store.
@pytest.mark.parametrize(
    "more", [(), ROCKSDB] if LONG else [ROCKSDB], ids=lambda more: "RocksDB" if more else "default"
)
def test_executor_lost(files: Path, undisturbed: Batches, tmp_path: Path, more: tuple[str, ...]) -> None:
    batches, seen = _run(files, tmp_path, "executor", *more)
    assert batches == undisturbed
    assert seen["late"] == 0 and seen["disturbed"] == 1


def test_tasks_retried(files: Path, undisturbed: Batches, tmp_path: Path) -> None:
    batches, seen = _run(files, tmp_path, "retry")
    assert batches == undisturbed
    assert seen["late"] == 0 and seen["disturbed"] == seen["again"] > 0


def test_tasks_speculated(files: Path, undisturbed: Batches, tmp_path: Path) -> None:
    with _two_hosts(tmp_path) as master:
        batches, seen = _run(files, tmp_path, "speculate", f"--master={master}")
    assert batches == undisturbed
    assert seen["late"] == 0 and seen["disturbed"] >= seen["again"] > 0


@contextlib.contextmanager
def _two_hosts(folder: Path) -> Iterator[str]:
    """Run a master and two workers with different addresses, both of them this machine's; yield the master's URL.

    Spark runs a task twice at a time on two hosts only, and the workers of a ``local-cluster`` have one.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    master = f"spark://127.0.0.1:{port}"
    commands = [["master.Master", "--host", "127.0.0.1", "--port", str(port)]]
    for host in ("127.0.0.2", "127.0.0.3"):
        options = ["--host", host, "--cores", "1", "--memory", "1g", "--work-dir", str(folder / host)]
        commands.append(["worker.Worker", *options, master])
    start = Path(pyspark.__file__).parent / "bin" / "spark-class"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SPARK_")}
    with contextlib.ExitStack() as running, (folder / "cluster.log").open("wb") as log:
        for main, *options in commands:
            process = subprocess.Popen(
                [str(start), f"org.apache.spark.deploy.{main}", "--webui-port", "0", *options],
                env=environment | {"SPARK_DAEMON_MEMORY": "512m"},
                stdout=log,
                stderr=log,
            )
            running.enter_context(process)
            running.callback(process.terminate)
        yield master
