"""Arrangements: collections with their indexes, kept up to date by one query and read by any number of others."""

from collections.abc import Sequence
from datetime import datetime
from html import escape
from typing import Literal, NamedTuple

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

from streamjoin._arguments.checks import (
    batch_limits,
    require_dataframes,
    require_type,
    unavailable_arguments,
    wrong_argument,
)
from streamjoin._arguments.columns import ColumnOrName, Key, column_name, columns_of_keys
from streamjoin._arguments.durations import Duration, spark_interval
from streamjoin._arguments.writers import writer_of
from streamjoin._display.formats import format_bytes
from streamjoin._spark.calls import call_function, call_table_function
from streamjoin._spark.checks import check_session


class Versions(NamedTuple):
    """The oldest and the newest version of an arrangement that can be read."""

    oldest: int
    newest: int


class Reader(NamedTuple):
    """A query that reads the changes of an arrangement.

    ``name`` is the name of the query, or None. ``id`` stays the same as long as the query's checkpoint does; a query
    that reads the arrangement twice has two. ``version`` is the version up to which it has read, as of the start of its
    last batch. ``versions_behind`` is the number of newer versions. ``since`` is the time at which it reached its
    version.
    """

    name: str | None
    id: str
    version: int
    versions_behind: int
    since: datetime


class Arrangement:
    """An existing arrangement. Its properties are read again on each access."""

    def __init__(self, path: str, *, spark: SparkSession) -> None:
        self._spark = spark
        row = _status(spark, path)
        #: Its name in the folder of arrangements.
        self.name: str = row.name
        #: Its folder.
        self.path: str = row.path
        #: The columns of each of its indexes; the first is the primary key of a changelog.
        self.keys: list[list[str]] = [list(key) for key in row["keys"]]

    @property
    def schema(self) -> StructType:
        """The schema of its rows."""
        return self._spark.read.format("streamjoin").load(self.path).schema

    @property
    def versions(self) -> Versions | None:
        """The oldest and the newest version that can be read, or None before the first one."""
        row = self._now()
        return None if row.newest_version is None else Versions(row.oldest_version, row.newest_version)

    @property
    def rows(self) -> int:
        """The number of rows in the newest version."""
        return int(self._now().rows)

    @property
    def bytes(self) -> int:
        """The size in bytes of the files of its newest version: the newest base, and the changes after it."""
        return int(self._now().bytes)

    @property
    def readers(self) -> list[Reader]:
        """The queries that read its changes, the slowest first."""
        return [Reader(*reader) for reader in self._now().readers]

    def toDF(self, version: int | None = None) -> DataFrame:  # noqa: N802 (as PySpark's)
        """Return the rows as a batch DataFrame.

        Args:
            version: The version to read. Default: the newest version at the time of reading.

        Returns:
            A batch DataFrame with the columns of ``schema``. Reading it raises ``STREAMJOIN_NO_VERSION`` if the version
            does not exist yet, and ``STREAMJOIN_ARRANGEMENT_RETENTION`` if it is no longer kept.
        """
        reader = self._spark.read.format("streamjoin")
        return (reader if version is None else reader.option("version", version)).load(self.path)

    def changes(
        self, *, max_versions_per_trigger: int | None = None, max_rows_per_trigger: int | None = None
    ) -> DataFrame:
        """Return the changes as a stream, which starts with the existing rows.

        Args:
            max_versions_per_trigger: The maximum number of versions in a batch.
            max_rows_per_trigger: Emit the existing rows in slices of about this many rows, one batch each.

        Returns:
            A streaming DataFrame with the columns of ``schema``, ``_version`` (BIGINT, the version in which a row was
            added or removed) and ``_diff`` (BIGINT, the number of copies added, or removed if it is negative).
        """
        options = batch_limits(
            "changes", maxVersionsPerTrigger=max_versions_per_trigger, maxRowsPerTrigger=max_rows_per_trigger
        )
        reader = self._spark.readStream.format("streamjoin")
        for name, limit in options.items():
            reader = reader.option(name, limit)
        return reader.load(self.path)

    def release(self, reader: str | Reader) -> None:
        """End the lease of a reader that will not return, so that the versions it has not read can be removed.

        If the reader does return, it may be rejected with ``STREAMJOIN_ARRANGEMENT_RETENTION``.

        Args:
            reader: One of ``readers``, or its id.

        Raises:
            pyspark.errors.AnalysisException: ``STREAMJOIN_NO_READER``; ``STREAMJOIN_READER_USED`` if it is a running
                query of another session, on a server that several users share.
        """
        name = reader.id if isinstance(reader, Reader) else reader
        if not isinstance(name, str):
            raise wrong_argument("release", "a reader of the arrangement, or its id", reader)
        call_table_function(self._spark, "sj_release_reader", self.path, name).collect()

    def drop(self, *, force: bool = False) -> None:
        """Remove the arrangement and all of its files.

        Args:
            force: Remove it even if it has readers, which then fail with ``STREAMJOIN_NO_ARRANGEMENT``.

        Raises:
            pyspark.errors.AnalysisException: ``STREAMJOIN_ARRANGEMENT_USED`` if it has readers, or if the query that
                maintains it runs in this application. ``force`` does not override the latter.
        """
        call_table_function(self._spark, "sj_drop_arrangement", self.path, force).collect()

    def _now(self) -> Row:
        return _status(self._spark, self.path)

    def __repr__(self) -> str:
        keys = ", ".join(f"[{', '.join(key)}]" for key in self.keys)
        return f"Arrangement {self.name} at {self.path}, keys {keys}"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the current state, and the readers."""
        now = self._now()
        shown = {
            "path": self.path,
            "columns": self.schema.simpleString().removeprefix("struct<").removesuffix(">"),
            "keys": "; ".join(", ".join(key) for key in self.keys),
            "versions": "none" if now.newest_version is None else f"{now.oldest_version} to {now.newest_version}",
            "rows": f"{now.rows:,}",
            "bytes": format_bytes(now.bytes),
        }
        for reader in (Reader(*each) for each in now.readers):
            shown[f"reader {reader.name or ''} {reader.id}"] = (
                f"version {reader.version}, {reader.versions_behind} behind"
            )
        rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in shown.items())
        return f"<table><caption>Arrangement {escape(self.name)}</caption>{rows}</table>"


def arrange(
    df: DataFrame,
    name: str | Arrangement,
    keys: Key | Sequence[Sequence[ColumnOrName]],
    *,
    op: ColumnOrName | None = None,
    diff: ColumnOrName | None = None,
    time: ColumnOrName | None = None,
    order: ColumnOrName | None = None,
    ttl: Duration | None = None,
    unavailable: str | None = "__debezium_unavailable_value",
) -> DataStreamWriter:
    """Keep a stream's rows as an arrangement: a durable collection with a history and an index for each key.

    Each batch writes one version, which all keys share. Queries read it as a table (:func:`streamjoin.arrangement`), as
    a stream of changes (``spark.readStream.format("streamjoin")``), or join it with others
    (:func:`streamjoin.delta_join`). One query maintains an arrangement, from one checkpoint. The number of its
    partitions is ``spark.streamjoin.partitions``, which may change when the query restarts.

    Args:
        df: A streaming DataFrame. With ``op`` it is a changelog: its rows insert, update and delete rows by the first
            of the keys. Debezium's ``before`` and ``after`` are unpacked. With ``diff``, its rows add and remove
            numbers of copies. Without either, rows are only added. Its columns are given as names or Columns.
        name: A name in the folder ``spark.streamjoin.arrangements``, a path, or the :class:`Arrangement` that the query
            continues to maintain.
        keys: The columns of each index, a list for each: ``[["order_id"], ["customer_id", "day"]]``. For a changelog,
            the first is the primary key. A flat list is one key: ``["customer_id", "day"]`` is
            ``[["customer_id", "day"]]``, and ``"order_id"`` is ``[["order_id"]]``.
        op: The column with the operation: ``insert``, ``update``, ``delete`` or their first letters; Debezium's ``c``,
            ``r``, ``u``, ``d``; the ``_change_type`` of ``readStream.changes``. Case does not matter. The row before an
            update is removed, so an update may move a row to another key.
        diff: The column with the number of copies that are added, or removed if it is negative.
        time: The column that orders the rows of a key. A row that is older than the last one of its key, or than its
            deletion, is ignored, in whichever batch it arrives. The progress counts such rows, and
            ``spark.streamjoin.lateRows=keep`` keeps them. Nulls are lowest. A delete with only its key has the time of
            the row that it removes. Within a batch, at the same time, deletions come first; then the values of the
            other columns decide.
        order: The column that decides between changes of the same time, or between all changes if there is no ``time``,
            such as a position in a log: ``"offset"``, ``"source.lsn"``. Rows that come from Kafka through nothing but
            projections and filters have one: partition and offset. Without any order and without ``time``, different
            changes of one key in a batch fail with ``STREAMJOIN_CHANGE_ORDER``.
        ttl: How long rows are kept, such as ``"30 days"``. Rows whose ``time`` is longer before the time of a batch are
            removed with that batch, as if they had been deleted. ``time`` has to be a TIMESTAMP, a TIMESTAMP_NTZ or a
            DATE. Rows without a time are kept. A restarted query may use another duration.
        unavailable: The text, or the bytes of it, that stands for a value that was not sent. The row then keeps its
            current value. A value that is not known becomes null and is counted as ``unavailableValues``; if the column
            is not nullable, the query fails with ``STREAMJOIN_UNAVAILABLE_VALUE``. None stores values as sent.

    Returns:
        A writer. Start it like any other: ``.trigger(...)``, ``.start(checkpointLocation=...)``.

    Raises:
        StreamJoinError: ``STREAMJOIN_WRONG_ARGUMENT``; or any of :func:`streamjoin.check`.
        pyspark.errors.AnalysisException: ``STREAMJOIN_COLUMN`` (a computed Column); ``STREAMJOIN_ARRANGE`` (no such
            column, two ways to change, an impossible key, ``ttl`` without a time); ``STREAMJOIN_NOT_A_STREAM``;
            ``STREAMJOIN_NO_ARRANGEMENTS_FOLDER``. ``start()`` raises ``STREAMJOIN_ARRANGEMENT_CHANGED`` (other keys, or
            columns that cannot change so), ``STREAMJOIN_ARRANGEMENT_OWNED`` (another query maintains it) or
            ``STREAMJOIN_ARRANGEMENT_OUTPUT_MODE`` (complete mode, or update mode without ``op``). The query fails with
            ``STREAMJOIN_OPERATION`` for an unknown operation, with ``STREAMJOIN_UNREADABLE_CHANGE`` for a message that
            could not be read, and with ``STREAMJOIN_DIFF`` for a number of copies that is null or does not fit into an
            INT.

    Source:
        Materialize, "Streaming joins using few resources": shared arrangements.

    Example:
        >>> spark.conf.set("spark.streamjoin.arrangements", "arrangements")
        >>> writer = arrange(deliveries, "deliveries", keys=[["order_id"]])
        >>> query = writer.start(checkpointLocation="checkpoints/deliveries")
    """
    require_dataframes("sj.arrange", "a streaming DataFrame", df)
    path = _path_of(name, "sj.arrange")
    check_session(df.sparkSession)
    given = {"op": op, "diff": diff, "time": time, "order": order}
    columns = {
        argument: None if column is None else column_name(column, df, "sj.arrange", argument)
        for argument, column in given.items()
    }
    length = None if ttl is None else spark_interval(ttl, "ttl", "sj.arrange", least=1)
    not_sent = unavailable_arguments(unavailable, "sj.arrange")
    named = columns_of_keys(keys, df, "sj.arrange")
    arranged = call_function(df, "sj_arrange", path=path, keys=named, ttl=length, **columns, **not_sent)
    return writer_of(arranged, path)


def arrangement(name: str | Arrangement, *, spark: SparkSession | None = None) -> Arrangement:
    """Return an existing arrangement, to inspect it and to read it.

    In SQL, ``sj_arrangements()`` returns the same as a table, with a row for each arrangement of the folder.

    Args:
        name: Its name in the folder ``spark.streamjoin.arrangements``, or its path; or an :class:`Arrangement`, to use
            it in another session.
        spark: The session, also of Spark Connect. Default: the session of the :class:`Arrangement`, or the active one.

    Raises:
        StreamJoinError: ``STREAMJOIN_WRONG_ARGUMENT``, or any of :func:`streamjoin.check`.
        pyspark.errors.AnalysisException: ``STREAMJOIN_NO_ARRANGEMENT``; ``STREAMJOIN_NO_ARRANGEMENTS_FOLDER``;
            ``STREAMJOIN_ARRANGEMENT_UNREADABLE``.

    Example:
        >>> orders = arrangement("orders")
        >>> orders.keys
        [['order_id'], ['customer_id']]
        >>> orders.toDF().columns
        ['order_id', 'customer_id', 'total']
        >>> orders.changes().columns
        ['order_id', 'customer_id', 'total', '_version', '_diff']
    """
    path = _path_of(name, "sj.arrangement")
    session = _session_of(spark, "sj.arrangement", name)
    check_session(session)
    return Arrangement(path, spark=session)


def table(
    name: str | Arrangement,
    *,
    version: Literal["current", "previous"] = "current",
    at_least: int | Literal["caught up"] | None = None,
    rematch: Duration | None = None,
    spark: SparkSession | None = None,
) -> DataFrame:
    """Return an arrangement as a table that streams look up row by row.

    ``stream.join(table, ...)`` is inner or left outer, on the columns of one of the arrangement's keys. A row is joined
    with the version of the table that its batch sees, and later changes do not affect rows that were emitted. The query
    keeps no rows and reads no table: it looks up the arrangement's index. Each batch writes the version that it sees
    into the checkpoint, so a repeated batch sees the same version. In SQL:
    ``stream JOIN name FOR SYSTEM_TIME AS OF NOW() ON ...``, or the name alone.

    Args:
        name: An arrangement, its name in the folder ``spark.streamjoin.arrangements``, or its path.
        version: The version that a batch sees: ``"current"``, the newest one, or ``"previous"``, the one before it. If
            there is no previous version, the table is empty.
        at_least: A new query waits with its first batch until the arrangement has this version. With ``"caught up"``,
            it waits until the query that maintains the arrangement has reached the end of its sources, in its current
            run or, if it is not running, in its last. Meanwhile the status of the query and the log say that it waits.
            A restarted query does not wait. Default: a new query starts immediately, whatever the table contains.
        rematch: How long, in event time, a row that was emitted without a match may still get one: text such as
            ``"1 hour"`` or a ``timedelta``. When a matching row is added to the table, the match is emitted as well,
            once. Outer joins only. The stream needs a watermark, and the query keeps such rows in its state. Default:
            nothing is emitted again.
        spark: The session, also of Spark Connect. Default: the session of the :class:`Arrangement`, or the active one.

    Returns:
        A batch DataFrame with the columns of the arrangement's rows. Where it is not joined with a stream, it has the
        rows of the newest version.

    Raises:
        StreamJoinError: ``STREAMJOIN_WRONG_ARGUMENT``, ``STREAMJOIN_DURATION`` (``rematch``), or any of
            :func:`streamjoin.check`.
        pyspark.errors.AnalysisException: ``STREAMJOIN_NO_ARRANGEMENT``, ``STREAMJOIN_NO_ARRANGEMENTS_FOLDER``; at
            ``start()`` of the query ``STREAMJOIN_TABLE`` (a join type or a condition that a look-up does not support;
            with ``rematch`` the join itself may raise it) and ``STREAMJOIN_TABLE_KEY`` (no key of the arrangement is
            among the equalities).

    Source:
        RisingWave, "Temporal join", process time; Lenses, "Joins", streams with tables.

    Example:
        >>> joined = clicks.join(table("customers"), "customer_id", "left")
        >>> joined.columns
        ['customer_id', 'page', 'name']
    """
    path = _path_of(name, "sj.table")
    if version not in ("current", "previous"):
        wanted = (
            'version="current" or version="previous", or at_least= for one to wait for '
            "(sj.arrangement(name).toDF(7) has the rows of version 7)"
        )
        raise wrong_argument("sj.table", wanted, version)
    if at_least not in (None, "caught up") and (not isinstance(at_least, int) or at_least < 0):
        raise wrong_argument("sj.table", 'a version as at_least, a number from 0, or "caught up"', at_least)
    session = _session_of(spark, "sj.table", name)
    check_session(session)
    reader = session.read.format("streamjoin").option("streamjoin.table", True).option("asOf", version)
    if at_least is not None:
        reader = reader.option("atLeast", at_least)
    if rematch is not None:
        reader = reader.option("rematch", spark_interval(rematch, "rematch", "sj.table", least=1))
    return reader.load(path)


def _path_of(found: str | Arrangement, call: str) -> str:
    """Return the name or the path of an arrangement, given as either of them or as an object."""
    if isinstance(found, Arrangement):
        return found.path
    if isinstance(found, str) and found.strip():
        return found
    raise wrong_argument(call, "an arrangement, its name or its path", found)


def _session_of(spark: SparkSession | None, call: str, *found: str | Arrangement) -> SparkSession:
    """Return the given session, or that of the first arrangement, or the active one."""
    if spark is not None:
        require_type(SparkSession, spark, call, "a SparkSession as spark")
        return spark
    own = (each._spark for each in found if isinstance(each, Arrangement))
    return next(own, None) or SparkSession.active()


def _status(spark: SparkSession, name_or_path: str) -> Row:
    (row,) = call_table_function(spark, "sj_arrangements", name_or_path).collect()
    return row
