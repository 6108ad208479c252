"""The figures of queries' batches from their location: a history, an event log, the page of a driver.

They are JSON objects, as ``docs/figures.schema.json`` describes them.
"""

import json
from collections.abc import Callable, Iterable
from functools import partial
from http.client import HTTPException
from typing import Any
from urllib.request import urlopen

from streamjoin.errors import StreamJoinError
from streamjoin.monitoring import _files
from streamjoin.monitoring._event_log import read_event_log
from streamjoin.monitoring._history import History
from streamjoin.monitoring._series import Batches, Figures, QueryBatches, Read, parse_line


def parse_lines(lines: Iterable[str]) -> Batches:
    """Return the figures in lines of JSON; if a batch ran again, its later line wins."""
    return QueryBatches().add(parse_line(line) for line in lines).batches()


def read_page(address: str, query: str | None, call: str) -> Batches:
    """Return the figures on the page of a running driver: the last batches of one query or of all.

    Raises:
        StreamJoinError: ``STREAMJOIN_NO_FIGURES``.
    """
    base = address.rstrip("/").removesuffix("/streamjoin") + "/streamjoin/figures/"

    def get(more: str) -> list[Figures]:
        try:
            with urlopen(base + more, timeout=10) as answer:
                found = json.load(answer)
        except (HTTPException, OSError, ValueError) as error:
            raise StreamJoinError(
                "STREAMJOIN_NO_FIGURES.PAGE", call=call, address=f"{base}{more}", error=str(error)
            ) from error
        return [each for each in found if isinstance(each, dict) and "id" in each] if isinstance(found, list) else []

    ids = [query] if query else [str(figures["id"]) for figures in get("")]
    return QueryBatches().add(figures for each in ids for figures in get(f"?query={each}")).batches()


def read_location(location: str, history: str | None, call: str) -> Batches:
    """Return all figures at a path: an event log, a history, or a checkpoint whose query has a history.

    Raises:
        StreamJoinError: ``STREAMJOIN_NO_FIGURES``, ``STREAMJOIN_PACKAGE_MISSING``.
    """
    return location_reader(location, history, call, everything=True)()


def location_reader(location: str, history: str | None, call: str, everything: bool = False) -> Read:
    """Return a function that reads a location repeatedly: from a history, the last batches and then what is new.

    Raises:
        StreamJoinError: ``STREAMJOIN_NO_FIGURES``; what is returned raises it too, and ``STREAMJOIN_PACKAGE_MISSING``.
    """
    none = partial(StreamJoinError, "STREAMJOIN_NO_FIGURES.LOCATION", call=call, location=location)
    read: Read
    if _files.is_url(location):
        read = lambda: read_page(location, None, call)  # noqa: E731
    elif (files := _event_log(location)) is not None:
        log = files
        read = lambda: parse_lines(read_event_log(log(), call))  # noqa: E731
    elif (query := _files.checkpoint_query_id(location)) is not None:
        folder = history or _files.session_setting("spark.streamjoin.history")
        if folder is None:
            raise StreamJoinError("STREAMJOIN_NO_FIGURES.CHECKPOINT", call=call, location=location, query=query)
        none = partial(StreamJoinError, "STREAMJOIN_NO_FIGURES.HISTORY", call=call, folder=folder, query=query)
        read = History(folder, query, everything).read
    else:
        read = History(location, None, everything).read

    def found() -> Batches:
        batches: Batches = read()
        if not batches:
            raise none()
        return batches

    return found


def _event_log(location: str) -> Callable[[], Iterable[Any]] | None:
    """Return a function that lists the files of the event log at a location, or None if it is not an event log."""
    path = _files.local_path(location)
    if path is None:
        return None
    if path.is_file() and path.suffix != ".jsonl":
        return lambda: [path]
    return (lambda: _files.rolling_log_files(path)) if path.name.startswith("eventlog_v2_") else None
