"""The figures of queries' batches, from where they are: a history, an event log, the page of a driver.

They are JSON objects, as ``docs/figures.schema.json`` describes them. Nothing here needs PySpark but the folders of
other file systems than this machine's, which an active session reads.
"""

import itertools
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

from streamjoin._event_log import figures_of_log
from streamjoin.errors import StreamJoinError

Figures = dict[str, Any]
Batches = dict[str, list[Figures]]
"""The figures of each query by its id, the oldest batch first."""

_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:")


def of_lines(lines: Iterable[str]) -> Batches:
    """Return the figures in lines of JSON; a later line of one batch wins, for the batch ran again."""
    return of_figures(figures for line in lines for figures in _parsed(line))


def _parsed(line: str) -> list[Any]:
    try:
        return [json.loads(line)]
    except ValueError:
        return []  # the last line of a file that is being written


def of_figures(all_figures: Iterable[Any]) -> Batches:
    """Return the figures by query and batch, without what is none; the later one of one batch wins."""
    found: dict[str, dict[int, Figures]] = {}
    for figures in all_figures:
        if isinstance(figures, dict) and "id" in figures and "batch" in figures:
            found.setdefault(str(figures["id"]), {})[int(figures["batch"])] = figures
    return {query: [batches[number] for number in sorted(batches)] for query, batches in found.items()}


def merged(*all_batches: Batches) -> Batches:
    """Return the figures of several places together; the last one wins."""
    each = itertools.chain.from_iterable(figures for found in all_batches for figures in found.values())
    return of_figures(each)


def of_page(address: str, query: str | None, call: str) -> Batches:
    """Return the figures that the page of a running driver has: the last batches of one query or of each.

    Raises:
        StreamJoinError: ``STREAMJOIN_NO_FIGURES``.
    """
    base = address.rstrip("/").removesuffix("/streamjoin") + "/streamjoin/figures/"

    def get(more: str) -> list[Figures]:
        try:
            with urlopen(base + more, timeout=10) as answer:
                found = json.load(answer)
        except (URLError, OSError, ValueError) as error:
            raise no_figures(
                call,
                f"{base}{more} does not answer with figures ({error})",
                "Give the address of the Spark UI of a driver with the extension, such as http://localhost:4040.",
            ) from error
        return found if isinstance(found, list) else []

    ids = [query] if query else [str(figures["id"]) for figures in get("")]
    return of_figures(figures for each in ids for figures in get(f"?query={each}"))


def of_place(place: str, history: str | None, call: str) -> Batches:
    """Return the figures at a path: of an event log, a history, or the query of a checkpoint in a history.

    Raises:
        StreamJoinError: ``STREAMJOIN_NO_FIGURES``, ``STREAMJOIN_PACKAGE_MISSING``.
    """
    if urlsplit(place).scheme in ("http", "https"):
        return of_page(place, None, call)
    path = local(place)
    if path is not None and path.is_file() and path.suffix != ".jsonl":
        found = of_lines(figures_of_log([path], call))
    elif path is not None and path.name.startswith("eventlog_v2_"):
        found = of_lines(figures_of_log(_events(path), call))
    elif (query := checkpoint_id(place)) is not None:
        folder = history or _setting("spark.streamjoin.history")
        if folder is None:
            raise no_figures(
                call,
                f"{place} is the checkpoint of the query {query}, which has no figures in itself",
                "Set spark.streamjoin.history to a folder before the query starts, and pass it as history=.",
            )
        found = {id_: batches for id_, batches in of_history(folder).items() if id_ == query}
        if not found:
            raise no_figures(call, f"the history {folder} has no batch of the query {query}", _KEEP)
    else:
        found = of_history(place)
    if not found:
        raise no_figures(call, f"{place} is no history, event log or checkpoint with batches of joins", _KEEP)
    return found


_KEEP = (
    "Set spark.streamjoin.history to a folder before the query starts, or spark.eventLog.enabled=true for the "
    "application."
)


def of_history(folder: str) -> Batches:
    """Return what a folder of the history has, of one query or of several; empty if it is none."""
    path = local(folder)
    if path is not None:
        files = [path] if path.is_file() else sorted([*path.glob("*.jsonl"), *path.glob("*/*.jsonl")])
        return of_lines(line for file in files for line in file.read_text(encoding="utf-8").splitlines())
    rows = _spark_text(folder, pathGlobFilter="*.jsonl", recursiveFileLookup="true")
    return of_lines(line for _, line in sorted(rows, key=lambda row: row[0]))


def checkpoint_id(place: str) -> str | None:
    """Return the id of the query that has its checkpoint at a path; None if it is no checkpoint."""
    if urlsplit(place).scheme in ("http", "https"):
        return None
    path = local(place)
    if path is not None:
        file = path / "metadata"
        text = file.read_text(encoding="utf-8") if file.is_file() else ""
    else:
        text = "".join(line for _, line in _spark_text(f"{place.rstrip('/')}/metadata"))
    try:
        return str(json.loads(text)["id"])
    except (ValueError, KeyError, TypeError):
        return None


def local(place: str) -> Path | None:
    """Return the path on this machine, or None for one of another file system."""
    if place.startswith("file:"):
        return Path(urlsplit(place).path)
    return None if _SCHEME.match(place) else Path(place)


def no_figures(call: str, problem: str, advice: str) -> StreamJoinError:
    """Return the error for a place without figures."""
    return StreamJoinError("STREAMJOIN_NO_FIGURES", call=call, problem=problem, advice=advice)


def _events(folder: Path) -> list[Path]:
    """Return the files of a rolling event log, in their order: ``events_<n>_<application>``, compacted or not."""
    numbered = [(int(found[1]), file) for file in folder.iterdir() if (found := re.match(r"events_(\d+)_", file.name))]
    return [file for _, file in sorted(numbered)]


def _session() -> Any:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        return None
    return SparkSession.getActiveSession()


def _setting(name: str) -> str | None:
    session = _session()
    return None if session is None else session.conf.get(name, None)


def _spark_text(path: str, **options: str) -> Iterator[tuple[str, str]]:
    """Yield the files and lines of text at a path of Hadoop's file systems; none if it cannot be read."""
    session = _session()
    if session is None:
        raise no_figures("streamjoin", f"{path} is not on this machine", "Read it where a SparkSession is active.")
    from pyspark.errors import AnalysisException

    try:
        rows = session.read.options(**options).text(path).selectExpr("_metadata.file_path AS file", "value").collect()
    except AnalysisException:
        return
    yield from ((row.file, row.value) for row in rows)
