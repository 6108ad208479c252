"""A query's batches as a report in one file, and live."""

from pathlib import Path

from pyspark.sql.streaming.query import StreamingQuery

from streamjoin._arguments import wrong_argument
from streamjoin._figures import Batches, checkpoint_id, local, merged, no_figures, of_lines, of_place
from streamjoin._report_page import page


def report(of: StreamingQuery | str | Path, path: str | Path, *, history: str | Path | None = None) -> Path:
    """Write a report of a query's batches: one HTML file, which needs no network.

    It has the plan with a picture of each join, batch by batch, the hints, and charts: watermarks, state, rows and
    time over the batches; skew by task; how late rows come and how many another delay would lose; how far apart
    matches are. No values of rows are in it. Needs plotly: ``pip install 'streamjoin[report]'``.

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
    batches = figures_of(of, history, "sj.report")
    checkpoint = None
    if isinstance(of, str | Path) and checkpoint_id(str(of)) is not None:
        checkpoint = local(str(of))
    file = Path(path)
    file.write_text(page(batches, checkpoint, "sj.report"), encoding="utf-8")
    return file


def figures_of(of: StreamingQuery | str | Path, history: str | Path | None, call: str) -> Batches:
    """Return the figures of a query or at a place; arguments and errors as of :func:`report`."""
    folder = None if history is None else str(history)
    if isinstance(of, str | Path):
        return of_place(str(of), folder, call)
    # A place needs no session, and no PySpark.
    from streamjoin._calls import ask, check_session
    from streamjoin._queries import session_of

    spark = session_of(of, call, "or the path of a history, an event log or a checkpoint")
    check_session(spark)
    query = str(of.id)
    found = of_lines(row.figures for row in ask(spark, f"SELECT figures FROM sj_figures('{query}')").collect())
    if folder is not None:
        before = of_place(folder, None, call)
        found = merged({query: before.get(query, [])}, found)
    if not found:
        raise no_figures(
            call,
            f"the query {of.name or query} has not ended a batch with a join yet",
            "Wait for its first batch; a query without joins of streamjoin has no figures.",
        )
    return found
