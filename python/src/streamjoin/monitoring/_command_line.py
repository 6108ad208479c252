"""``python -m streamjoin watch`` and ``report``: without a session, and without PySpark."""

import argparse
from pathlib import Path

from streamjoin._packaging.optional import import_optional
from streamjoin.monitoring import _screen
from streamjoin.monitoring._report_page import write_report
from streamjoin.monitoring._sources import location_reader, read_location
from streamjoin.monitoring._terminal_table import as_text


def watch(arguments: argparse.Namespace) -> None:
    """Draw the figures of a location, or print them once if the output is not a terminal."""
    call = "python -m streamjoin watch"
    import_optional("rich", _screen.WATCH_EXTRA, call)

    read = location_reader(arguments.query, arguments.history, call)
    if _screen.in_terminal() and not arguments.once:
        _screen.draw(read, arguments.interval, call)
    print(as_text(read(), _screen.terminal_width()))


def report(arguments: argparse.Namespace) -> None:
    """Write a report and print where it is."""
    call = "python -m streamjoin report"
    batches = read_location(arguments.query, arguments.history, call)
    write_report(batches, arguments.query, Path(arguments.path))
    print(arguments.path)
