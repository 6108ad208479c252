"""``python -m streamjoin watch`` and ``report``: without a session, and without PySpark."""

import argparse
from pathlib import Path

from streamjoin._packaging.optional import needed
from streamjoin.monitoring import _screen
from streamjoin.monitoring._report_page import write
from streamjoin.monitoring._sources import looking_at, of_place
from streamjoin.monitoring._terminal_table import as_text


def watch(arguments: argparse.Namespace) -> None:
    """Draw the figures of a place, or print them once where nobody sits at a terminal."""
    call = "python -m streamjoin watch"
    needed("rich", _screen.WATCH, call)

    look = looking_at(arguments.query, arguments.history, call)
    if _screen.in_terminal() and not arguments.once:
        _screen.draw(look, arguments.interval, call)
    print(as_text(look(), _screen.width()))


def report(arguments: argparse.Namespace) -> None:
    """Write a report and print where it is."""
    call = "python -m streamjoin report"
    batches = of_place(arguments.query, arguments.history, call)
    write(batches, arguments.query, Path(arguments.path))
    print(arguments.path)
