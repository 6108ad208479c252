"""A query's batches as a report in one file, and live."""

import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from streamjoin._arguments.checks import wrong_argument
from streamjoin._arguments.queries import session_of
from streamjoin._packaging.optional import needed
from streamjoin._spark.calls import ask
from streamjoin._spark.checks import check_session
from streamjoin.monitoring import _live, _places
from streamjoin.monitoring._figures import Look, looking_at, of_lines
from streamjoin.monitoring._history import History
from streamjoin.monitoring._live_table import as_text
from streamjoin.monitoring._places import no_figures
from streamjoin.monitoring._report_page import write
from streamjoin.monitoring._series import Batches, joined


def report(of: StreamingQuery | str | Path, path: str | Path, *, history: str | Path | None = None) -> Path:
    """Write a report of a query's batches: one HTML file, which needs no network.

    It has totals, and a picture for each question: whether event time moves on, how many rows come, whether state
    grows and where the time goes, over the batches; what holds the output back and how long a row waits, batch by
    batch; skew by task; how late rows are and what delay would keep them; how far apart matches are. It opens on the
    last batch that had rows. No values of rows are in it.

    Args:
        of: A streaming query of this driver, running or stopped, of Spark Connect too: its last 100 batches. Or a path:
            of a history (``spark.streamjoin.history``), or of one query in it; of an event log of Spark, also rolling
            or compressed (zstd, lz4); of a checkpoint, for the history of its query, and with its files. Or the address
            of a driver's UI.
        path: The file that is written.
        history: The folder of the history, for a checkpoint; the ``spark.streamjoin.history`` of the active session if
            left out. For a query, batches from before the last 100.

    Returns:
        The path of the file.

    Raises:
        StreamJoinError: ``STREAMJOIN_NO_FIGURES``; ``STREAMJOIN_PACKAGE_MISSING``; ``STREAMJOIN_WRONG_ARGUMENT``;
            ``STREAMJOIN_NOT_A_STREAM``; or any of :func:`streamjoin.check`.

    Example:
        >>> joined = sj.join(orders, deliveries, "order_id", within=("0 seconds", "1 hour"))
        >>> query = joined.writeStream.start(format="noop", checkpointLocation="checkpoints/reported")
        >>> query.processAllAvailable()
        >>> report(query, "report.html").name
        'report.html'
        >>> query.stop()
    """
    if not isinstance(path, str | Path):
        raise wrong_argument("sj.report", "the path of the file to write", path)
    batches = _looking_at(of, history, "sj.report", everything=True)()
    file = Path(path)
    write(batches, of, file)
    return file


class Watch:
    """The figures of queries as they are now: each look reads them again.

    A notebook shows the plan with a picture of each join, and goes on to show it until ``stop``. ``str`` and ``print``
    have the table of a terminal.
    """

    def __init__(self, read: _live.Read, interval: float) -> None:
        self._read, self._interval = read, interval
        self._refresher: _live.Refresher | None = None

    def stop(self) -> None:
        """Let a notebook show it no more."""
        if self._refresher is not None:
            self._refresher.stop()

    def run(self) -> None:
        """Draw it in the terminal until ``q`` or Ctrl-C."""
        _live.draw(self._read, self._interval, "sj.watch")

    def __repr__(self) -> str:
        needed("rich", _live.WATCH, "sj.watch")
        return as_text(self._read())

    def _repr_html_(self) -> str:
        return _live.as_html(self._read())

    def _ipython_display_(self) -> None:
        from IPython import display

        self.stop()

        def now() -> Any:
            return display.HTML(self._repr_html_())

        shown = display.display(now(), display_id=True)
        if _live.in_notebook():
            self._refresher = _live.Refresher(lambda: shown.update(now()), self._interval)


def watch(
    of: StreamingQuery | str | Path, *, history: str | Path | None = None, interval: float | None = None
) -> Watch:
    """Show the figures of a query live: state, watermarks, who waits for whom, rates, hints.

    In a terminal it draws a table until ``q`` or Ctrl-C. In a notebook what it returns shows the plan with a picture of
    each join, and shows it again and again. Needs rich outside of notebooks: ``pip install 'streamjoin[watch]'``.
    ``python -m streamjoin watch <path or address>`` does the same in a shell.

    Args:
        of: A streaming query, of Spark Connect too; or a path or an address, as for :func:`streamjoin.report`. A
            history has a batch at most ten seconds after its end.
        history: As for :func:`streamjoin.report`.
        interval: Seconds between two looks; one in a terminal, three in a notebook if left out.

    Returns:
        What it shows, to look at again: ``print`` has the table.

    Raises:
        StreamJoinError: As of :func:`streamjoin.report`.

    Example:
        >>> joined = sj.join(orders, deliveries, "order_id", within=("0 seconds", "1 hour"))
        >>> query = joined.writeStream.start(format="noop", checkpointLocation="checkpoints/watched")
        >>> query.processAllAvailable()
        >>> "1 inner interval join" in str(watch(query))
        True
        >>> query.stop()
    """
    if interval is not None and (isinstance(interval, bool) or not isinstance(interval, int | float) or interval <= 0):
        raise wrong_argument("sj.watch", "a positive number of seconds as interval", interval)
    look = _looking_at(of, history, "sj.watch")
    look()  # what is wrong with the arguments is said here
    terminal = _live.in_terminal()
    watched = Watch(look, interval or (1 if terminal else 3))
    if terminal:
        watched.run()
    return watched


def _looking_at(
    of: StreamingQuery | str | Path, history: str | Path | None, call: str, everything: bool = False
) -> Look:
    """Return what looks at the figures of a query or of a place; arguments and errors as of :func:`report`.

    The first look waits for the figures of a query's last batch, which come a moment after its end.
    """
    folder = None if history is None else str(history)
    if isinstance(of, str | Path):
        _places.settle()
        return looking_at(str(of), folder, call, everything)
    query = of
    spark = session_of(query, call, "or the path of a history, an event log or a checkpoint")
    check_session(spark)
    before = None if folder is None else History(folder, str(query.id), everything)
    until = time.monotonic() + _PATIENCE

    def look() -> Batches:
        found = _now(spark, query, until)
        if before is not None:
            found = joined(before.look(), found)
        if not found.get(str(query.id)):
            raise no_figures(
                call,
                f"the query {query.name or query.id} has not ended a batch with a join yet",
                "Wait for its first batch. A query without joins of streamjoin has no figures; of one that maintains "
                "an arrangement sj.explain_analyze(query) has them.",
            )
        return found

    return look


_PATIENCE = 2
"""Seconds."""


def _now(spark: SparkSession, query: StreamingQuery, until: float) -> Batches:
    """Return the figures that the driver has of a query; it waits for those of the last batch until some time."""
    key = str(query.id)
    while True:
        found = of_lines(row.figures for row in ask(spark, f"SELECT figures FROM sj_figures('{key}')").collect())
        last = found[key][-1]["batch"] if key in found else -1
        progress = query.lastProgress
        if time.monotonic() >= until or progress is None or last >= progress.batchId:
            return found
        time.sleep(0.05)
