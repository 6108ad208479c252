"""The history of queries: a folder for each query, from which only the requested files are read.

``FiguresHistory`` of the extension writes it: ``<folder>/<query id>/<first line>-<lines>-<time>.jsonl``, whose names
say which lines they contain. An older version named them by their first batches: ``0000001000.jsonl``.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from streamjoin.monitoring import _files
from streamjoin.monitoring._series import FULL_BATCHES, Batches, QueryBatches, parse_line

_NAME = re.compile(r"(\d{12,})-(\d+)-\d+\.jsonl")
_ENDING = ".jsonl"
_ATTEMPTS = 5


class HistoryFile(NamedTuple):
    """A file of a history: its path, and the lines that its name states, or else its size in bytes."""

    path: str
    size: int | None
    first: int | None = None
    lines: int = 1

    @property
    def name(self) -> str:
        """Return the last part of the path."""
        return self.path.rsplit("/", 1)[-1]

    @property
    def end(self) -> int:
        """Return the number of the first line after its own."""
        return (self.first or 0) + self.lines


def history_file(path: str, size: Callable[[], int]) -> HistoryFile:
    """Return the file at a path; its size is determined only if its name does not state its lines."""
    found = _NAME.fullmatch(path.rsplit("/", 1)[-1])
    return HistoryFile(path, None, int(found[1]), int(found[2])) if found else HistoryFile(path, size())


def _first_batch(file: HistoryFile) -> int:
    """Return the first batch of a file of an older version, or 0 for any other file."""
    return int(file.name.removesuffix(_ENDING)) if file.name.removesuffix(_ENDING).isdecimal() else 0


def order_files(files: Iterable[HistoryFile]) -> list[HistoryFile]:
    """Return the files, oldest first, without those whose lines a larger one contains."""
    old: list[HistoryFile] = []
    new: list[HistoryFile] = []
    for file in files:
        (old if file.first is None else new).append(file)
    kept: list[HistoryFile] = []
    for file in sorted(new, key=lambda each: (each.first, -each.lines)):
        if not kept or kept[-1].end < file.end:
            kept.append(file)
    # An older file ends where the next one begins.
    old = sorted(old)
    batches = [_first_batch(file) for file in old]
    return [
        *(
            file._replace(lines=max(after - first, 1))
            for file, first, after in zip(old, batches, batches[1:], strict=False)
        ),
        *old[-1:],
        *kept,
    ]


class History:
    """The figures of queries in a folder. The first read returns what was requested, each later one what is new.

    Args:
        folder: A history, the folder of one query in it, or a file of that.
        query: The id of the only query to return: no file of another query is read.
        everything: Whether to return all batches instead of only the last ones.
    """

    def __init__(self, folder: str, query: str | None = None, everything: bool = False) -> None:
        self._files = _SparkFolders(folder) if (path := _files.local_path(folder)) is None else _LocalFolders(path)
        self._query = query
        self._everything = everything
        self._gathered = QueryBatches() if everything else QueryBatches(points=0)
        self._positions: dict[str, _Position] = {}

    def read(self) -> Batches:
        """Return the current figures; empty if there is no history."""
        for attempt in range(_ATTEMPTS):
            try:
                for folder, files in self._files.of(self._query):
                    self._read_new(folder, order_files(files))
                break
            except FileNotFoundError:  # merged into a larger one in the meantime
                if attempt == _ATTEMPTS - 1:
                    raise
        found = self._gathered.batches()
        return found if self._query is None else {id_: all_ for id_, all_ in found.items() if id_ == self._query}

    def _read_new(self, folder: str, files: list[HistoryFile]) -> None:
        read = self._positions.get(folder)
        if read is None or (read.end is None and files and files[-1].first is not None):
            files = files if self._everything else _last_files(files)
            read = self._positions[folder] = _Position()
        for file in files:
            known = read.known_lines(file)
            if known is None:
                continue
            lines = self._files.lines(file)
            for _ in range(known):
                next(lines, None)
            self._gathered.add(parse_line(line) for line in lines)
            read.advance(file)


def _last_files(files: list[HistoryFile]) -> list[HistoryFile]:
    """Return the last files, which have the batches that are kept in full."""
    many, at = 0, len(files)
    while at and many < FULL_BATCHES:
        at -= 1
        many += files[at].lines
    return files[at:]


class _Position:
    """How far the files of a query have been read."""

    def __init__(self) -> None:
        self.end: int | None = None
        self._old: dict[str, int | None] = {}

    def known_lines(self, file: HistoryFile) -> int | None:
        """Return how many lines of a file have been read; None if all have."""
        if file.first is None:
            return None if self._old.get(file.path) == file.size else 0
        known = (self.end or 0) - file.first
        return None if file.lines <= known else max(known, 0)

    def advance(self, file: HistoryFile) -> None:
        if file.first is None:
            self._old[file.path] = file.size
        else:
            self.end = file.end


class _LocalFolders:
    """Folders of this machine."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def of(self, query: str | None) -> Iterator[tuple[str, list[HistoryFile]]]:
        """Yield folders with their files: the folder of the query, which may be the root itself, or all folders."""
        if self._root.is_file():
            yield "", [history_file(str(self._root), lambda: self._root.stat().st_size)]
        elif query is not None and (self._root / query).is_dir():
            yield query, _list_files(self._root / query)
        elif self._root.is_dir():
            yield "", _list_files(self._root)
            if query is None:
                yield from self._below()

    def _below(self) -> Iterator[tuple[str, list[HistoryFile]]]:
        for name in sorted(entry.name for entry in os.scandir(self._root) if entry.is_dir()):
            yield name, _list_files(self._root / name)

    def lines(self, file: HistoryFile) -> Iterator[str]:
        with Path(file.path).open(encoding="utf-8") as lines:
            yield from lines


def _list_files(folder: Path) -> list[HistoryFile]:
    entries = [entry for entry in os.scandir(folder) if entry.name.endswith(_ENDING)]
    return [history_file(entry.path, partial(_size, entry)) for entry in entries]


def _size(entry: os.DirEntry[str]) -> int:
    return entry.stat().st_size


class _SparkFolders:
    """Folders of Hadoop's file systems."""

    def __init__(self, root: str) -> None:
        self._root = root.rstrip("/")

    def of(self, query: str | None) -> Iterator[tuple[str, list[HistoryFile]]]:
        found = _files.list_with_spark(f"{self._root}/{query}", _ENDING, deep=False) if query is not None else []
        folders: dict[str, list[HistoryFile]] = {}
        for path, size in found or _files.list_with_spark(self._root, _ENDING, deep=query is None):
            folders.setdefault(path.rpartition("/")[0], []).append(history_file(path, partial(int, size)))
        yield from sorted(folders.items())

    def lines(self, file: HistoryFile) -> Iterator[str]:
        yield from _files.read_with_spark(file.path).splitlines()
