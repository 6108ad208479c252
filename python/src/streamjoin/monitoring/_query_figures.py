"""The figures of a query in this driver, or at a location, for ``report`` and ``watch``."""

import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from streamjoin._arguments.queries import session_of
from streamjoin._spark.calls import call_table_function
from streamjoin._spark.checks import check_session
from streamjoin.errors import StreamJoinError
from streamjoin.monitoring import _files
from streamjoin.monitoring._history import History
from streamjoin.monitoring._series import Batches, Read, merge_batches
from streamjoin.monitoring._sources import location_reader, parse_lines

_WAIT_SECONDS = 2


def figures_reader(
    query: StreamingQuery | str | Path, history: str | Path | None, call: str, everything: bool = False
) -> Read:
    """Return a function that reads the figures of a query or location; arguments and errors as for :func:`report`.

    The first read waits for the figures of a query's last batch, which are written a moment after its end.
    """
    folder = None if history is None else str(history)
    if isinstance(query, str | Path):
        _files.flush_history()
        return location_reader(str(query), folder, call, everything)
    spark = session_of(query, call, "or the path of a history, an event log or a checkpoint")
    check_session(spark)
    before = None if folder is None else History(folder, str(query.id), everything)
    until = time.monotonic() + _WAIT_SECONDS

    def read() -> Batches:
        found = _driver_figures(spark, query, until)
        if before is not None:
            found = merge_batches(before.read(), found)
        if not found.get(str(query.id)):
            raise StreamJoinError("STREAMJOIN_NO_FIGURES.NO_BATCH", call=call, query=query.name or str(query.id))
        return found

    return read


def _driver_figures(spark: SparkSession, query: StreamingQuery, until: float) -> Batches:
    """Return the driver's figures of a query, after waiting for those of the last batch until a deadline."""
    key = str(query.id)
    while True:
        found = parse_lines(row.figures for row in call_table_function(spark, "sj_figures", key).collect())
        last = found[key][-1]["batch"] if key in found else -1
        progress = query.lastProgress
        if time.monotonic() >= until or progress is None or last >= progress.batchId:
            return found
        time.sleep(0.05)
