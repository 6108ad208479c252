"""Writes the golden checkpoints of the state format at hand: ``format-<number>-<joins>.tar.gz`` next to this file.

Each has the checkpoint of each join and state store, stopped in the middle, with the remaining input files and the
rows emitted so far. They are made once for each format and never change: ``test_golden.py`` restores and continues all
of them. Before the first release, ``stream-joins/0`` in them was rewritten twice: when that file got its version 2, and
when its description of temporal, as-of and rematch joins became fields.

An archive holds the joins that were new with it: ``format-3-closest.tar.gz`` has temporal and as-of joins, and
``format-3-rematch.tar.gz`` a join with a table that keeps rows; both are later than ``format-3.tar.gz``.
``format-4-names.tar.gz`` has a join on the name of a column with ``within=``, and a window join.
``format-4-carried.tar.gz`` has joins in which a row carries the time at which it leaves. ``format-4-condition.tar.gz``
compares with such a time next to a constant bound; it was made by the last commit for which that was only a condition
(2d2181d9), with the jobs of a later one.
``format-4-pages.tar.gz`` has a temporal join that keeps the newest versions in pages; before it, each key had a value.
``make.py`` writes the archive that its argument names. From format 4 on, the left side runs ahead in the middle by so
much time that its rows lie in wide buckets.

Checkpoints contain the path of their input, so they are made in a folder that is the same on all machines.
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
FORMAT = 4
TYPES = {
    f"format-{FORMAT}": ["inner", "left_outer", "right_outer", "full_outer", "left_semi", "left_anti"],
    f"format-{FORMAT}-closest": ["temporal", "asof"],
    f"format-{FORMAT}-rematch": ["rematch"],
    f"format-{FORMAT}-names": ["within", "window"],
    f"format-{FORMAT}-carried": ["carried", "carried_outer"],
    f"format-{FORMAT}-condition": ["condition"],
    f"format-{FORMAT}-pages": ["temporal"],
}
PACKAGE = "org.apache.spark.sql.execution.streaming.state"
STORES = {"default": f"{PACKAGE}.HDFSBackedStateStoreProvider", "rocksdb": f"{PACKAGE}.RocksDBStateStoreProvider"}
FILES = 8
BEFORE = 5
START = datetime(2026, 1, 1, tzinfo=UTC)


def main(name: str) -> None:
    """Make an archive of the format at hand; an existing one is never written over."""
    archive = HERE / f"{name}.tar.gz"
    assert not archive.exists(), f"{archive.name} is there already, and stays as it is"
    folder = Path(tempfile.gettempdir()) / "streamjoin-golden"
    folder.mkdir()
    chance = random.Random(5)
    for number in range(FILES):
        part = "before" if number < BEFORE else "after"
        write(folder / part / "left", number, rows("l", number, chance))
        write(folder / part / "right", number, rows("r", number, chance))
    for store, provider in STORES.items():
        subprocess.run(
            [
                *(sys.executable, str(JOB), f"--input={folder / 'before'}", f"--output={folder / store / 'output'}"),
                *(f"--checkpoints={folder / store / 'checkpoints'}", "--types", *TYPES[name]),
                *("--conf", f"spark.sql.streaming.stateStore.providerClass={provider}"),
            ],
            check=True,
        )
    with tarfile.open(archive, "x:gz") as tar:
        tar.add(folder, arcname=".")


def rows(side: str, number: int, chance: random.Random) -> list[dict[str, object]]:
    """Return rows of ten seconds for a side, ``l`` or ``r``; the last file's moves the watermark past all others."""

    def row(key: int | None, seconds: float, value: int, row_id: int) -> dict[str, object]:
        return {f"{side}k": key, f"{side}t": at(seconds), f"{side}v": value, f"{side}id": row_id}

    if number == FILES - 1:
        return [row(-1 if side == "l" else -2, 2000, 0, -1)]
    return [
        row(chance.choice([0, 1, 2, 3, None]), seconds, chance.randrange(10), number * 100 + i)
        for i, seconds in enumerate(times(side, number, chance))
    ]


def times(side: str, number: int, chance: random.Random) -> list[float]:
    """Return seconds, none of them late: a file reaches back less far than the watermarks are delayed."""
    if side == "l" and number >= BEFORE - 1:
        start, span = (40, 700) if number == BEFORE - 1 else (700 + number * 10, 10)
        return [start + chance.uniform(-4.9, span) for _ in range(600 if span > 10 else 15)]
    return [number * 10 + chance.uniform(-4.9, 10) for _ in range(15)]


def at(seconds: float) -> str:
    """Return an event time."""
    return (START + timedelta(seconds=seconds)).isoformat()


def write(folder: Path, number: int, lines: list[dict[str, object]]) -> None:
    """Write one file; Spark takes files in the order of their modification times."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{number}.json"
    path.write_text("".join(json.dumps(row) + "\n" for row in lines))
    os.utime(path, (START.timestamp() + number,) * 2)


if __name__ == "__main__":
    main(sys.argv[1])
