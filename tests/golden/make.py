"""Writes the golden checkpoints of the state format at hand: ``format-<number>.tar.gz`` beside this file.

A checkpoint of each join type and state store, stopped in the middle, with the files that come after and what came out
before. They are made once for each format and kept for good: ``test_golden.py`` restores all of them and goes on.

The checkpoints know their input by its path, so they are made in one that is nobody's.
"""

import json
import os
import random
import subprocess
import sys
import tarfile
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

HERE = Path(__file__).parent
JOB = HERE.parent / "jobs" / "join_job.py"
FORMAT = 2
TYPES = ["inner", "left_outer", "right_outer", "full_outer", "left_semi", "left_anti"]
PACKAGE = "org.apache.spark.sql.execution.streaming.state"
STORES = {"default": f"{PACKAGE}.HDFSBackedStateStoreProvider", "rocksdb": f"{PACKAGE}.RocksDBStateStoreProvider"}
FILES = 8
BEFORE = 5
START = datetime(2026, 1, 1, tzinfo=UTC)


def main() -> None:
    """Make the archive of the format at hand; an existing one is never written over."""
    archive = HERE / f"format-{FORMAT}.tar.gz"
    assert not archive.exists(), f"{archive.name} is there already, and stays as it is"
    folder = Path(tempfile.gettempdir()) / "streamjoin-golden"
    folder.mkdir()
    chance = random.Random(5)
    for number in range(FILES):
        part = "before" if number < BEFORE else "after"
        write(folder / part / "left", number, left_rows(number, chance))
        write(folder / part / "right", number, right_rows(number, chance))
    for store, provider in STORES.items():
        subprocess.run(
            [
                *(sys.executable, str(JOB), f"--input={folder / 'before'}", f"--output={folder / store / 'output'}"),
                *(f"--checkpoints={folder / store / 'checkpoints'}", "--types", *TYPES),
                *("--conf", f"spark.sql.streaming.stateStore.providerClass={provider}"),
            ],
            check=True,
        )
    with tarfile.open(archive, "x:gz") as tar:
        tar.add(folder, arcname=".")


def left_rows(number: int, chance: random.Random) -> list[dict[str, object]]:
    """Return rows of ten seconds, the last file the one that moves the watermark past all others."""
    if number == FILES - 1:
        return [{"lk": -1, "lt": at(1000), "lv": 0, "lid": -1}]
    return [
        {"lk": chance.choice([0, 1, 2, 3, None]), "lt": at(t), "lv": chance.randrange(10), "lid": number * 100 + i}
        for i, t in enumerate(times(number, chance))
    ]


def right_rows(number: int, chance: random.Random) -> list[dict[str, object]]:
    """Return the same for the right side."""
    if number == FILES - 1:
        return [{"rk": -2, "rt": at(1000), "rv": 0, "rid": -1}]
    return [
        {"rk": chance.choice([0, 1, 2, 3, None]), "rt": at(t), "rv": chance.randrange(10), "rid": number * 100 + i}
        for i, t in enumerate(times(number, chance))
    ]


def times(number: int, chance: random.Random) -> list[float]:
    """Return seconds, none of them late: a file reaches back less far than the watermarks are delayed."""
    return [number * 10 + chance.uniform(-4.9, 10) for _ in range(15)]


def at(seconds: float) -> str:
    """Return an event time."""
    return (START + timedelta(seconds=seconds)).isoformat()


def write(folder: Path, number: int, rows: list[dict[str, object]]) -> None:
    """Write one file, in the order of which Spark takes them by their times of modification."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{number}.json"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(path, (START.timestamp() + number,) * 2)


if __name__ == "__main__":
    main()
