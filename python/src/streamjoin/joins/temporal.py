"""``temporal_join``: joins each row of a stream with the version of a table that was valid at its time."""

from typing import NamedTuple, cast, final

from pyspark.sql import DataFrame

from streamjoin._arguments.checks import require_dataframes, require_type, unavailable_arguments, wrong_argument
from streamjoin._arguments.columns import ColumnOrName, Key, column_path, is_event_time, key_columns, quote_if_needed
from streamjoin._arguments.durations import Duration, spark_interval
from streamjoin._arguments.join_keys import On, join_on
from streamjoin._arguments.join_types import StreamJoinType
from streamjoin._spark.calls import call_function
from streamjoin._spark.checks import check_session

ROLE = "streamjoin.versions"
"""Metadata of a column whose name is not the one that was given: what it is."""


@final
class Now:
    """The type of ``sj.NOW``: as ``as_of`` of :func:`temporal_join`, it means the time at which a row is joined."""

    def __repr__(self) -> str:
        return "sj.NOW"

    def __reduce__(self) -> str:
        return "NOW"


NOW = Now()
"""The only value of its type."""


class VersionedStream(NamedTuple):
    """A stream of the versions of a table's rows, as returned by :func:`versions`."""

    changes: DataFrame
    key: list[str]
    time: str
    op: str | None
    order: str | None
    unavailable: str | None = "__debezium_unavailable_value"


def versions(
    changes: DataFrame,
    *,
    key: Key,
    time: ColumnOrName | None = None,
    op: ColumnOrName | None = None,
    order: ColumnOrName | None = None,
    unavailable: str | None = "__debezium_unavailable_value",
) -> VersionedStream:
    """Declare a stream as the history of a table, for :func:`temporal_join`.

    A version is valid from its time, inclusive, until the next version or delete of its key. Of versions with the same
    key and time, the one with the greater ``order`` wins. Without ``order``, or if the orders are equal, the later one
    in its topic wins if the versions come from Kafka through nothing but ``select`` and ``where``. Otherwise a row wins
    over a delete; without ``order``, of two rows the one with the greater values wins, column by column from left to
    right, nulls lowest. Versions may arrive in any order: a late version counts for the rows after it, unless its key
    has a newer version. A version without a key or without a time is ignored, and counted as ``ignoredVersions`` in the
    progress.

    Debezium's envelope is recognized by its columns ``before`` and ``after``, which are structs with the columns of the
    key, and ``op``. The right side of the join then has the columns of the table, followed by ``time``, ``order`` and
    ``op``. An update that moves a row to another key ends the old key and starts the new one. A delete needs only its
    key. A name refers to a column of the envelope if there is one; if the table has a column of that name too, the
    column of the envelope is called ``_envelope_<name>`` in the result. A tombstone, in which all three columns are
    null, is ignored and counted. So is a change with a null in its primary key, which is kept with the late rows.

    Args:
        changes: A streaming DataFrame with a watermark. Its columns are given as names or Columns.
        key: The columns that identify a row of the table: a column, ``key="id"``, a field of one, ``key="row.id"``, or
            a list of the columns of the one key, ``key=["country", "city"]``.
        time: The ``TIMESTAMP`` column, with a watermark, from which on a version is valid. Default: the column with a
            watermark.
        op: A column of text: ``insert``, ``update`` or ``delete``; Debezium's ``c``, ``r``, ``u`` or ``d``; or the
            ``_change_type`` of Spark's ``readStream.changes``. Without it, all rows are versions, and none is ever
            deleted. For an envelope, the default is ``op``. Any other text fails the query with
            ``STREAMJOIN_OPERATION``.
        order: A column that orders versions with the same key and time, such as a position in a log. It may be a field,
            ``"source.lsn"``.
        unavailable: The text, or the bytes of it, that stands for a value that was not sent. The value is then that of
            the previous version. If that is not known, it is null, which the progress counts as ``unavailableValues``;
            in a column that is not nullable, the query fails with ``STREAMJOIN_UNAVAILABLE_VALUE``. None uses values as
            sent.

    Returns:
        The second argument of :func:`temporal_join`.

    Raises:
        StreamJoinError: ``STREAMJOIN_WRONG_ARGUMENT``, or any of :func:`streamjoin.check`.
        pyspark.errors.AnalysisException: ``STREAMJOIN_COLUMN`` (a computed Column), ``STREAMJOIN_EVENT_TIME``;
            ``STREAMJOIN_NOT_A_STREAM`` if ``time`` is left out and ``changes`` is a batch. The query fails with
            ``STREAMJOIN_DELETE_WITHOUT_TIME`` for a delete whose ``time`` is null.

    Source:
        Flink, "Versioned tables"; Debezium's change events.

    Example:
        >>> versions(deliveries, key="order_id").time
        'delivery_time'
    """
    require_dataframes("sj.versions", "a streaming DataFrame", changes)
    check_session(changes.sparkSession)
    named = {
        argument: column_path(column, changes, "sj.versions", argument)
        for argument, column in (("time", time), ("op", op), ("order", order))
        if column is not None
    }
    keys = key_columns(key, changes, "sj.versions")
    not_sent = unavailable_arguments(unavailable, "sj.versions")
    rows = call_function(changes, "sj_versions", key=keys, **named, **not_sent)
    at = named.get("time") or quote_if_needed(
        next(field.name for field in changes.schema.fields if is_event_time(field))
    )
    # Columns with another name than the argument gives, or computed ones.
    roles = {role: quote_if_needed(field.name) for field in rows.schema.fields if (role := field.metadata.get(ROLE))}
    if rows.columns == changes.columns and not roles:
        return VersionedStream(changes, keys, at, named.get("op"), named.get("order"), unavailable)
    is_flat = set(changes.columns) <= set(rows.columns)
    op_name = roles.get("op", named.get("op", None if is_flat else "op"))
    return VersionedStream(
        rows, keys, roles.get("time", at), op_name, roles.get("order", named.get("order")), unavailable
    )


def temporal_join(
    stream: DataFrame,
    versions: VersionedStream | DataFrame,
    on: On,
    how: StreamJoinType | str = "inner",
    *,
    as_of: ColumnOrName | Now | None = None,
    history: Duration | None = None,
    ordered: bool = True,
) -> DataFrame:
    """Join each row of a stream with the version of a table that was valid at the row's time.

    A row waits until the watermarks of both inputs have passed its time. After that, only a late row could change its
    match. A version that arrives later counts for the rows after it, unless its key has a newer version. The query
    keeps the newest version of each key, and the versions that waiting or future rows can match. In SQL:
    ``stream [LEFT] JOIN changes FOR SYSTEM_TIME AS OF stream.t ON ...``.

    Args:
        stream: An append-only streaming DataFrame with a watermark; not a changelog.
        versions: The table: a stream as :func:`versions` returns it; with ``sj.NOW``, a :func:`table`.
        on: The name of a column that both have, a condition, or a list of either, with an equality for each column of
            the versions' key; ``F.expr("o.item = p.item")`` is a condition in SQL. Any further condition decides
            whether the valid version matches.
        how: ``"inner"``, or ``"left"`` to keep rows for which no version was valid; in any of Spark's spellings.
        as_of: The event-time column of ``stream``, as a name or a Column. Default: the column with a watermark. With
            ``sj.NOW``, each row is joined with the version of the table that its batch sees, and waits for nothing.
        history: How far a row of ``stream`` may be behind the rows emitted so far and still match the version that was
            valid at its time: text such as ``"1 day"`` or a ``timedelta``. Default: not at all. The versions are kept
            for this additional time, and the output's watermark lags by as much.
        ordered: Emit the rows of each batch in the order of ``as_of``. ``False`` saves a shuffle and a sort, for
            instance below an aggregation.

    Returns:
        The result of ``stream.join(versions, on, how)``, in each batch in the order of ``as_of`` unless ``ordered`` is
        false. ``as_of`` carries a watermark.

    Raises:
        StreamJoinError: ``STREAMJOIN_WRONG_ARGUMENT``, ``STREAMJOIN_DURATION``, ``STREAMJOIN_JOIN_KEYS``, or any of
            :func:`streamjoin.check`.
        pyspark.errors.AnalysisException: ``STREAMJOIN_EVENT_TIME``; ``STREAMJOIN_TEMPORAL`` (the key is outside the
            equality, the stream is a changelog, another type of join), ``STREAMJOIN_COLUMN``,
            ``STREAMJOIN_NOT_A_STREAM``; ``start()`` raises ``STREAMJOIN_TEMPORAL_TIME`` for an input without a
            watermark, ``STREAMJOIN_OUTPUT_MODE`` in another mode than append, and ``STREAMJOIN_TEMPORAL_DISABLED``. An
            unknown operation fails the query with ``STREAMJOIN_OPERATION``.

    Source:
        RisingWave, "Temporal join", event time.

    Example:
        >>> history_of_vans = versions(deliveries, key="order_id")
        >>> temporal_join(orders, history_of_vans, "order_id", "left").columns
        ['order_id', 'order_time', 'delivery_time']
    """
    require_dataframes("sj.temporal_join", "a streaming DataFrame", stream)
    if isinstance(as_of, Now):
        require_dataframes("sj.temporal_join", "sj.table(name) as its second argument, with as_of=sj.NOW", versions)
        if history is not None:
            raise wrong_argument("sj.temporal_join", "no history with as_of=sj.NOW", history)
        return join_on(stream, cast(DataFrame, versions), on, how)
    table = cast(VersionedStream, versions)
    require_type(VersionedStream, table, "sj.temporal_join", "sj.versions(changes, key=...) as its second argument")
    longer = None if history is None else spark_interval(history, "history", "sj.temporal_join")
    check_session(stream.sparkSession)
    columns = table._asdict() | {"changes": None} | unavailable_arguments(table.unavailable, "sj.temporal_join")
    return call_function(
        join_on(stream, table.changes, on, how),
        "sj_temporal_join",
        **columns,
        as_of=None if as_of is None else column_path(as_of, stream, "sj.temporal_join", "as_of"),
        history=longer,
        ordered=ordered,
    )
