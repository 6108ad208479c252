"""The history of queries in files: of a long one, only the requested part is read."""

import json
import sys
from pathlib import Path
from typing import Any

from conftest import rejected

import streamjoin as sj
from streamjoin.monitoring._history import history_file, order_files
from streamjoin.monitoring._sources import location_reader, read_location


def written(folder: Path, query: str, first: int, many: int, older: bool = False, **more: Any) -> None:
    """Write a file of a history, as the extension does or as an older version of it."""
    (folder / query).mkdir(parents=True, exist_ok=True)
    name = f"{first:010d}.jsonl" if older else f"{first:012d}-{many}-0.jsonl"
    lines = [json.dumps({"id": query, "batch": batch, **more}) for batch in range(first, first + many)]
    (folder / query / name).write_text("".join(f"{line}\n" for line in lines))


class Opened:
    """The files of a folder that are opened."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._names = str(folder), list[str]()
        sys.addaudithook(self._seen)

    def _seen(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and str(arguments[0]).startswith(self._folder) and arguments[1] == "r":
            self._names.append(Path(str(arguments[0])).name)

    def names(self) -> list[str]:
        """Return the names since the last call."""
        found, self._names = self._names, []
        return found


def test_of_a_long_history_only_what_is_new_is_read(tmp_path: Path) -> None:
    folder, checkpoint = tmp_path / "history", tmp_path / "checkpoint"
    checkpoint.mkdir()
    (checkpoint / "metadata").write_text('{"id": "mine"}')
    for other in range(50):
        written(folder, f"other-{other}", 0, 3)
    for first, many in ((0, 1000), (1000, 1000), (2000, 100), (2100, 100), (2200, 10)):
        written(folder, "mine", first, many)
    opened = Opened(folder)
    read = location_reader(str(checkpoint), str(folder), "test")
    assert [each["batch"] for each in read()["mine"]] == list(range(2010, 2210)), "the last ones"
    assert opened.names() == ["000000002000-100-0.jsonl", "000000002100-100-0.jsonl", "000000002200-10-0.jsonl"]
    assert read()["mine"][-1]["batch"] == 2209
    assert opened.names() == []
    written(folder, "mine", 2210, 1)
    assert read()["mine"][-1]["batch"] == 2210
    assert opened.names() == ["000000002210-1-0.jsonl"]
    # Small files become a large one, with a batch more; the small ones are removed a moment later.
    written(folder, "mine", 2000, 212)
    assert [each["batch"] for each in read()["mine"]] == list(range(2012, 2212))
    assert opened.names() == ["000000002000-212-0.jsonl"]
    for name in ("000000002100-100-0.jsonl", "000000002210-1-0.jsonl"):
        (folder / "mine" / name).unlink()
    assert read()["mine"][-1]["batch"] == 2211
    assert opened.names() == []

    everything = read_location(str(checkpoint), str(folder), "test")["mine"]
    assert sum(each.get("batches", 1) for each in everything) == 2212
    assert len(opened.names()) == 3
    others = folder / "other-1"
    rejected("STREAMJOIN_NO_FIGURES.HISTORY", lambda: sj.watch(checkpoint, history=others), "has no batch of")
    (checkpoint / "metadata").write_text('{"id": "nobody"}')
    opened.names()
    rejected("STREAMJOIN_NO_FIGURES.HISTORY", lambda: sj.watch(checkpoint, history=folder), "has no batch of")
    assert opened.names() == []
    # All queries of the folder: each by its last files, and then what is new.
    read = location_reader(str(folder), None, "test")
    assert len(read()) == 51
    opened.names()
    written(folder, "other-7", 3, 1)
    assert read()["other-7"][-1]["batch"] == 3
    assert opened.names() == ["000000000003-1-0.jsonl"]


def test_a_history_of_an_older_version(tmp_path: Path) -> None:
    written(tmp_path, "mine", 0, 1000, older=True)
    written(tmp_path, "mine", 1000, 2, older=True)
    read = location_reader(str(tmp_path), None, "test")
    assert [each["batch"] for each in read()["mine"]] == list(range(802, 1002))
    written(tmp_path, "mine", 1000, 5, older=True)
    assert read()["mine"][-1]["batch"] == 1004, "a file that grows"
    # A newer version continues, and renames what is there.
    for old, new in (("0000000000", "000000000000-1000-0"), ("0000001000", "000000001000-5-0")):
        (tmp_path / "mine" / f"{old}.jsonl").rename(tmp_path / "mine" / f"{new}.jsonl")
    written(tmp_path, "mine", 1005, 1)
    assert [each["batch"] for each in read()["mine"]] == list(range(806, 1006))
    names = ["b/0000000005.jsonl", "b/0000000000.jsonl", "b/000000000003-2-9.jsonl", "b/000000000000-4-1.jsonl"]
    ordered = order_files([history_file(name, lambda: 1) for name in names])
    assert [int(file.name[:10]) for file in ordered] == [0, 5, 0, 0]


def test_a_checkpoint_that_was_put_back(tmp_path: Path) -> None:
    written(tmp_path, "mine", 0, 10, run=1)
    (tmp_path / "mine" / "000000000010-2-0.jsonl").write_text(
        "".join(json.dumps({"id": "mine", "batch": batch, "run": 2}) + "\n" for batch in (4, 5))
    )
    found = read_location(str(tmp_path), None, "test")["mine"]
    assert [(each["batch"], each["run"]) for each in found] == [*((batch, 1) for batch in range(4)), (4, 2), (5, 2)]
