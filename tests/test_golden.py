"""Checkpoints that earlier builds wrote are restored and continued, for every state format since the first release.

The archives in ``golden/`` hold, for each state store, the checkpoints of some joins that were stopped half way, their
output until then, and the input from before and after; ``golden/make.py`` made them, once.
"""

import json
import os
import re
import tarfile
from collections import Counter
from pathlib import Path

import duckdb
import pytest
from conftest import LONG, OTHER_LINE, together
from side import TYPES

GOLDEN = Path(__file__).with_name("golden")
JOB = Path(__file__).with_name("jobs") / "join_job.py"
ARCHIVES = sorted(GOLDEN.glob("format-*.tar.gz"))
STORES = ["default", "rocksdb"]
CONDITION = "lk = rk AND rt BETWEEN lt - INTERVAL 5 SECONDS AND lt + INTERVAL 20 SECONDS AND lv + rv < 15"
UNTIL = "lt + lv * INTERVAL 4 SECONDS"
CARRIED = {
    "carried": f"lk = rk AND rt BETWEEN lt - INTERVAL 5 SECONDS AND {UNTIL} AND lv + rv < 15",
    "carried_outer": f"lk = rk AND rt BETWEEN lt - INTERVAL 5 SECONDS AND {UNTIL} AND lv + rv < 15",
    "condition": f"{CONDITION} AND rt <= {UNTIL}",
}
FULL = {
    "within": "lk = rk AND rt BETWEEN lt - INTERVAL 5 SECONDS AND lt + INTERVAL 20 SECONDS",
    "window": "lk = rk AND rt BETWEEN lt AND lt + INTERVAL 20 SECONDS AND lv + rv < 15",
}
# How a left row finds its only right row: the candidates, their order, and the condition of the
# first of them.
CLOSEST = {
    "temporal": ("rt <= lt", "rt DESC", "rv >= 2 AND lv + rv < 15"),
    "asof": ("abs(epoch_us(rt) - epoch_us(lt)) <= 7000000", "abs(epoch_us(rt) - epoch_us(lt))", "true"),
}

Ids = Counter[tuple[int | None, int | None]]


# `make test` has each format with one of the stores, and the bounds that rows carry; another line
# has every second of these.
SOME = [each for each in ARCHIVES if not re.search("-(closest|names|rematch)", each.name)][:: 2 if OTHER_LINE else 1]
CASES = (
    [(each, store) for each in ARCHIVES for store in STORES]
    if LONG
    else [(each, STORES[at % 2]) for at, each in enumerate(SOME)]
)


class Restored:
    """The checkpoints of an archive that were made with one state store, and the rows that were emitted before."""

    def __init__(self, archive: Path, store: str, folder: Path) -> None:
        self.folder = folder
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
        for number, path in enumerate(sorted(folder.glob("after/*/*.json"), key=lambda path: path.name)):
            # Spark's file source takes files in the order of their modification times.
            os.utime(path, (1_800_000_000 + number,) * 2)
        self.output, self.checkpoints = folder / store / "output", folder / store / "checkpoints"
        self.types = sorted(path.name for path in self.checkpoints.iterdir())
        self.before = {how: written(self.output, how) for how in self.types}

    def program(self) -> list[str]:
        """Return the program that continues them, and its arguments."""
        folders = [f"--input={self.folder / 'after'}", f"--output={self.output}", f"--checkpoints={self.checkpoints}"]
        return [str(JOB), *folders, "--types", *self.types]


@pytest.fixture(scope="module")
def continued(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[Path, str], Restored]:
    """Restore all checkpoints, and continue their queries to the end."""
    restored = {case: Restored(*case, tmp_path_factory.mktemp(case[0].name)) for case in CASES}
    together(each.program() for each in restored.values())
    return restored


@pytest.mark.parametrize("case", CASES, ids=[f"{archive.name}-{store}" for archive, store in CASES])
def test_restored_and_continued(case: tuple[Path, str], continued: dict[tuple[Path, str], Restored]) -> None:
    restored = continued[case]
    for how in restored.types:
        before, expected = restored.before[how], batch_answer(restored.folder, how)
        assert before, f"{how}: nothing was emitted before"
        assert before.total() < expected.total(), f"{how}: nothing was left to emit"
        assert written(restored.output, how) == expected, how


def written(output: Path, how: str) -> Ids:
    """Return the ids of all rows that were emitted, except the closing rows."""
    ids: Ids = Counter()
    for path in output.glob(f"{how}/*/*.json"):
        for line in json.loads(path.read_text()):
            row = json.loads(line)
            ids[row.get("lid"), row.get("rid")] += 1
    return without_closing(ids)


def batch_answer(folder: Path, how: str) -> Ids:
    """Return DuckDB's join of all rows."""
    columns = "lid, NULL" if how in ("left_semi", "left_anti") else "lid, rid"
    left, right = (
        f"(SELECT * REPLACE ({side[0]}t::TIMESTAMPTZ AS {side[0]}t) FROM read_json_auto('{folder}/*/{side}/*.json'))"
        for side in ("left", "right")
    )
    if how in CLOSEST:
        candidates, order, matches = CLOSEST[how]
        found = f"SELECT IF({matches}, rid, NULL) FROM {right} WHERE lk = rk AND {candidates} ORDER BY {order} LIMIT 1"
        query = f"SELECT lid, ({found}) FROM {left}"
    elif how in FULL:
        query = f"SELECT lid, rid FROM {left} FULL JOIN {right} ON {FULL[how]}"
    elif how == "rematch":
        # Left rows from before whose match comes after were emitted without it, too.
        first, later = (
            f"(FROM read_json_auto('{folder}/{part}'))" for part in ("before/left/*.json", "after/right/*.json")
        )
        query = f"SELECT lid, rid FROM {left} LEFT JOIN {right} ON lid + 100 = rid"
        query += f" UNION ALL SELECT lid, NULL FROM {first} SEMI JOIN {later} ON lid + 100 = rid"
    else:
        kind = TYPES.get(how, "INNER" if how == "carried" else "LEFT")
        query = f"SELECT {columns} FROM {left} {kind} JOIN {right} ON {CARRIED.get(how, CONDITION)}"
    return without_closing(Counter(duckdb.execute(query).fetchall()))


def without_closing(ids: Ids) -> Ids:
    return Counter({pair: n for pair, n in ids.items() if -1 not in pair})
