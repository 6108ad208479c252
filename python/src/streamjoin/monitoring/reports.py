"""A query's batches as a report in one file."""

from pathlib import Path

from pyspark.sql.streaming.query import StreamingQuery

from streamjoin._arguments.checks import wrong_argument
from streamjoin._arguments.renamed import renamed_argument
from streamjoin.monitoring._query_figures import figures_reader
from streamjoin.monitoring._report_page import write_report


@renamed_argument("of", "query")
def report(query: StreamingQuery | str | Path, path: str | Path, *, history: str | Path | None = None) -> Path:
    """Write a report of a query's batches: one HTML file, which needs no network.

    It has totals, and a picture for each question. Over all batches, it shows whether event time advances, how many
    rows arrive, whether state grows, and where the time goes. Batch by batch, it shows what holds the output back and
    how long a row waits. It also shows skew by task, how late rows are and what delay would keep them, and how far
    apart matches are. It opens on the last batch that had rows. It contains no values of rows.

    Args:
        query: A streaming query of this driver, running or stopped, also over Spark Connect; the report covers its last
            100 batches. Or a path: that of a history (``spark.streamjoin.history``), or of one query in it; of an event
            log of Spark, also rolling or compressed (zstd, lz4); of a checkpoint, for the history of its query,
            together with the checkpoint's files. Or the address of a driver's UI.
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
    batches = figures_reader(query, history, "sj.report", everything=True)()
    file = Path(path)
    write_report(batches, query, file)
    return file
