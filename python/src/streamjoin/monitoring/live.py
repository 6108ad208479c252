"""The current figures of a query, in a terminal or a notebook."""

import math
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from streamjoin._arguments.checks import wrong_argument
from streamjoin._arguments.renamed import renamed_argument
from streamjoin._packaging.optional import import_optional
from streamjoin.monitoring import _screen
from streamjoin.monitoring._query_figures import figures_reader
from streamjoin.monitoring._series import Read
from streamjoin.monitoring._terminal_table import as_text


class Watch:
    """The live figures of queries, read again for each display.

    A notebook shows the plan with a picture of each join, and refreshes it until ``stop``. ``str`` and ``print`` return
    the table of a terminal.
    """

    def __init__(self, read: Read, interval: float) -> None:
        self._read, self._interval = read, interval
        self._refresher: _screen.Refresher | None = None

    def stop(self) -> None:
        """Stop refreshing the display in a notebook."""
        if self._refresher is not None:
            self._refresher.stop()

    def run(self) -> None:
        """Draw the table in the terminal until ``q`` or Ctrl-C."""
        _screen.draw(self._read, self._interval, "sj.watch")

    def __repr__(self) -> str:
        import_optional("rich", _screen.WATCH_EXTRA, "sj.watch")
        return as_text(self._read())

    def _repr_html_(self) -> str:
        return _screen.as_html(self._read())

    def _ipython_display_(self) -> None:
        if not _screen.in_notebook():  # IPython in a terminal, which would show the name of a class
            print(self)
            return
        from IPython import display

        self.stop()

        def now() -> Any:
            return display.HTML(self._repr_html_())

        shown = display.display(now(), display_id=True)
        self._refresher = _screen.Refresher(lambda: shown.update(now()), self._interval)


@renamed_argument("of", "query")
def watch(
    query: StreamingQuery | str | Path, *, history: str | Path | None = None, interval: float | None = None
) -> Watch:
    """Show the figures of a query live: state, watermarks, which input waits for which, rates, hints.

    In a terminal, it draws a table until ``q`` or Ctrl-C. In a notebook, the returned object shows the plan with a
    picture of each join, and refreshes it. Outside notebooks it needs rich: ``pip install 'streamjoin[watch]'``.
    ``python -m streamjoin watch <path or address>`` does the same in a shell.

    Args:
        query: A streaming query, also over Spark Connect; or a path or an address, as for :func:`streamjoin.report`. A
            history has a batch at most ten seconds after its end.
        history: The folder of the history, as for :func:`streamjoin.report`.
        interval: Seconds between two refreshes. Default: one in a terminal, three in a notebook.

    Returns:
        The display. ``print`` shows its table.

    Raises:
        StreamJoinError: The errors of :func:`streamjoin.report`.

    Example:
        >>> joined = sj.join(orders, deliveries, "order_id", within=("0 seconds", "1 hour"))
        >>> query = joined.writeStream.start(format="noop", checkpointLocation="checkpoints/watched")
        >>> query.processAllAvailable()
        >>> "1 inner interval join" in str(watch(query))
        True
        >>> query.stop()
    """
    is_number = isinstance(interval, int | float) and not isinstance(interval, bool)
    if interval is not None and not (is_number and 0 < interval < math.inf):
        raise wrong_argument("sj.watch", "a positive number of seconds as interval", interval)
    read = figures_reader(query, history, "sj.watch")
    read()  # raises the errors of the arguments
    terminal = _screen.in_terminal()
    watched = Watch(read, interval or (1 if terminal else 3))
    if terminal:
        watched.run()
    return watched
