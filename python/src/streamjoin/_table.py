"""``table``: an arrangement as a table that streams look up."""

from datetime import timedelta
from typing import Literal

from pyspark.sql import DataFrame, SparkSession

from streamjoin._arrangement import Arrangement
from streamjoin.durations import spark_interval
from streamjoin.jvm import checked_entry, is_connect, wrong_argument


def table(
    name: str | Arrangement,
    *,
    as_of: Literal["current", "previous"] = "current",
    at_least: int | Literal["caught up"] | None = None,
    rematch: str | timedelta | None = None,
    spark: SparkSession | None = None,
) -> DataFrame:
    """Return an arrangement as a table: a stream that is joined with it looks up each of its rows.

    ``stream.join(table, ...)``, inner or left outer, by the columns of one of the arrangement's keys. A row meets the
    table as it is in its batch, and what changes later changes no row that came out. The query keeps no row, and reads
    no table: it looks up the arrangement's index. Each batch writes the version that it sees into the checkpoint, so
    that it sees the same if it runs again. In SQL: ``stream JOIN name FOR SYSTEM_TIME AS OF NOW() ON ...``, or the name
    alone.

    Args:
        name: An arrangement, its name in the folder ``spark.streamjoin.arrangements``, or its path.
        as_of: Which version a batch sees: the newest one, or the one before it. There is none before the first: the
            table is empty then.
        at_least: Without it a new query starts at once, whatever the table has. With it, a new query waits with its
            first batch until the arrangement has this version; with ``"caught up"`` until the query that maintains it
            has come to the end of its sources, in the run that goes on or, if none does, in its last. Until then the
            status of the query and the log say that it waits. A query that starts again does not wait.
        rematch: For how long in event time a row that came out without a match may get one, text such as
            ``"1 hour"`` or a ``timedelta``: when a row for it comes to the table, the match comes out too, once.
            Outer joins only; the stream has a watermark, and the query keeps such rows in its state. Without it
            nothing comes out again.
        spark: The session, of Spark Connect too; without it, the active one.

    Returns:
        A batch DataFrame with the columns of the arrangement's rows. Where no stream is joined with it, it has the rows
        of the newest version.

    Raises:
        StreamJoinError: ``STREAMJOIN_WRONG_ARGUMENT``, ``STREAMJOIN_DURATION`` (``rematch``), or any of
            :func:`streamjoin.check`.
        pyspark.errors.AnalysisException: ``STREAMJOIN_NO_ARRANGEMENT``, ``STREAMJOIN_NO_ARRANGEMENTS_FOLDER``; at
            ``start()`` of the query ``STREAMJOIN_TABLE`` (a type of join, or a condition, by which a table is not
            looked up; with ``rematch`` the join itself may raise it) and ``STREAMJOIN_TABLE_KEY`` (no key of the
            arrangement is among the equalities).

    Source:
        RisingWave, "Temporal join", process time; Lenses, "Joins", streams with tables.

    Example:
        >>> joined = clicks.join(table("customers"), "customer_id", "left")
        >>> joined.columns
        ['customer_id', 'page', 'name']
    """
    if not isinstance(name, str | Arrangement) or (isinstance(name, str) and not name.strip()):
        raise wrong_argument("sj.table", "an arrangement, its name or its path", name)
    if as_of not in ("current", "previous"):
        raise wrong_argument("sj.table", 'as_of="current" or as_of="previous"', as_of)
    if at_least not in (None, "caught up") and (not isinstance(at_least, int) or at_least < 0):
        raise wrong_argument("sj.table", 'a version as at_least, a number from 0, or "caught up"', at_least)
    session = spark or SparkSession.active()
    if not is_connect(session):
        checked_entry(session, "sj.table")
    path = name.path if isinstance(name, Arrangement) else name
    reader = session.read.format("streamjoin").option("streamjoin.table", True).option("asOf", as_of)
    if at_least is not None:
        reader = reader.option("atLeast", at_least)
    if rematch is not None:
        reader = reader.option("rematch", spark_interval(rematch, "rematch", "sj.table", least=1))
    return reader.load(path)
