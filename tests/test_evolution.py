"""Changes of a running query, as Python shows them; the rows after a change are in the Scala suites of `evolve`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

JOIN = {"version": 2, "kind": "interval_join", "partitions": 4, "join_type": "inner", "condition": "a"}
FOR_PROGRAMS = ("routing", "left_rows", "right_rows", "rows", "equalities")
JOIN |= dict.fromkeys(FOR_PROGRAMS, "x")


def write(folder: Path, name: str, content: Any) -> None:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content), encoding="utf-8")


def shown(checkpoint: Path, expect: int = 0) -> str:
    command = [sys.executable, "-c", "import runpy, sys; sys.modules['pyspark'] = None; "]
    command[-1] += "runpy.run_module('streamjoin', run_name='__main__')"
    done = subprocess.run([*command, "evolution", str(checkpoint)], capture_output=True, text=True, check=False)
    assert done.returncode == expect, done.stderr
    return done.stdout or done.stderr


def test_what_a_checkpoint_records_is_shown_without_spark(tmp_path: Path) -> None:
    write(tmp_path, "stream-joins/0", JOIN)
    assert shown(tmp_path).splitlines() == [
        "no batch has been committed",
        "",
        "join 1: interval_join, 4 partitions",
        "  condition: a",
        "  join_type: inner",
    ]


@pytest.mark.parametrize("committed", [6, 7])
def test_a_change_counts_once_its_batch_is_committed(tmp_path: Path, committed: int) -> None:
    after = {"from": 7, "kind": "interval_join", "join_type": "inner", "condition": "b", "routing": "x"}
    moved = [{"from": 3, "partitions": 1, "folder": "3-x"}, {"from": 7, "partitions": 8, "folder": "7-x"}]
    write(tmp_path, "stream-joins/0", JOIN | {"version": 3, "rewritten": moved, "changed": after})
    for batch in range(committed + 1):
        write(tmp_path, f"commits/{batch}", {})
    gap = {"operator": 0, "from": 7, "column": 0, "belowMicros": 0, "completeFromMicros": 1_767_274_140_000_000}
    earlier = gap | {"from": 5, "completeFromMicros": 1_800_000_000_000_000, "until": 7}
    write(tmp_path, "keyed-watermarks/8", {"version": 2, "gaps": [earlier, gap]})
    lines = shown(tmp_path).splitlines()
    assert lines[0] == f"batch {committed} is the last committed one"
    assert lines[2] == f"join 1: interval_join, {'1 partition' if committed == 6 else '8 partitions'}"
    assert lines[3] == ("  condition: a" if committed == 6 else "  condition: b")
    assert ("  batch 7 has been attempted with:" in lines) == (committed == 6)
    assert ("    partitions: 8" in lines) == (committed == 6)
    assert lines[-1] == "  complete from 2026-01-01T13:29:00Z"


def test_joins_that_were_added_and_removed(tmp_path: Path) -> None:
    empty, written = {"partitions": 0}, {"rewritten": [{"from": 4, "partitions": 3, "folder": "4-x"}]}
    write(tmp_path, "stream-joins/0", JOIN | {"version": 4, "removed": 7})
    write(tmp_path, "stream-joins/1", JOIN | empty | written | {"version": 4, "added": 4, "place": "x"})
    write(tmp_path, "stream-joins/2", JOIN | empty | {"version": 4, "added": 8})
    write(tmp_path, "commits/7", {})
    assert [line for line in shown(tmp_path).splitlines() if line.startswith("join")] == [
        "join 1: interval_join, 4 partitions, removed with batch 7",
        "join 2: interval_join, 3 partitions, added with batch 4",
        "join 3: interval_join, no state yet, added with batch 8, which has not been committed",
    ]


def test_a_folder_that_is_no_checkpoint(tmp_path: Path) -> None:
    assert "STREAMJOIN_NO_STATE.NO_OPERATOR" in shown(tmp_path, expect=1)
