"""``temporal_join``: each row of a stream with the version of a table that was valid at its time."""

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
    """As ``as_of`` of :func:`temporal_join`, ``sj.NOW`` is what is valid when a row is joined."""

    def __repr__(self) -> str:
        return "sj.NOW"

    def __reduce__(self) -> str:
        return "NOW"


NOW = Now()
"""The only value of its type."""


class VersionedStream(NamedTuple):
    """A stream of versions of the rows of a table, as :func:`versions` returns it."""

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
    """Say how a stream is the history of a table, for :func:`temporal_join`.

    A version is valid from its time on, that instant included, until the next one of its key or a delete. Of versions
    with one key and one time the one with the greater ``order`` wins; without it, or where that is the same too, the
    later one in its topic, where they come from Kafka through nothing but ``select`` and ``where``. Otherwise a row
    wins over a delete, and without ``order`` of two rows the one with the greater values, column by column from left to
    right, nulls lowest. Versions may come in any order: one that comes late counts for the rows after it, unless its
    key has a newer one. A version without a key or without a time is left out, and counted as ``ignoredVersions`` in
    the progress.

    Debezium's envelope, known by its columns ``before`` and ``after``, structs with the columns of the key, and ``op``,
    is taken as it is: the right side of the join has the columns of the table, then ``time``, ``order`` and ``op``. An
    update that moves a row to another key ends the old key and begins the new one; of a delete the key is enough. A
    name means a column of the envelope where it has one, and its column is called ``_envelope_<name>`` in the result
    where the table has one of that name, too. A tombstone, in which all three are null, is left out and counted; so is
    a change with a null in its primary key, which is kept with the late rows.

    Args:
        changes: A streaming DataFrame with a watermark. Its columns are given by name or as Columns.
        key: What tells the rows of the table apart: a column, ``key="id"``, a field of one, ``key="row.id"``, or a list
            of the columns of the one key, ``key=["country", "city"]``.
        time: The ``TIMESTAMP`` column, with a watermark, from which on a version is valid; without it, the one with a
            watermark.
        op: A column of text: ``insert``, ``update`` or ``delete``; Debezium's ``c``, ``r``, ``u`` or ``d``; or
            the ``_change_type`` of Spark's ``readStream.changes``. Without it all rows are versions, and none is ever
            deleted; of an envelope it is ``op``. Any other text fails the query with ``STREAMJOIN_OPERATION``.
        order: A column that says in which order versions of one key and one time came, such as a position in a log; it
            may be a field, ``"source.lsn"``.
        unavailable: The text, or the bytes of it, that stands for a value that was not sent: it is that of the version
            before, or null where that is not known, which the progress counts as ``unavailableValues``; in a column
            that cannot be null the query fails with ``STREAMJOIN_UNAVAILABLE_VALUE``. None takes values as they are.

    Returns:
        What :func:`temporal_join` takes as its second argument.

    Raises:
        StreamJoinError: ``STREAMJOIN_WRONG_ARGUMENT``, or any of :func:`streamjoin.check`.
        pyspark.errors.AnalysisException: ``STREAMJOIN_COLUMN`` (a Column that is computed), ``STREAMJOIN_EVENT_TIME``;
            ``STREAMJOIN_NOT_A_STREAM``, where it looks for ``time`` in a batch. The query fails with
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
    # Columns that are called otherwise than the argument says, or are computed.
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

    A row waits until the watermarks of both inputs have passed its time; then nothing that comes in time can change its
    match. A version that comes later counts for the rows after it, if its key has no newer one. Of the table the newest
    version of each key is kept, and those that rows which wait, or may still come, can meet.
    In SQL: ``stream [LEFT] JOIN changes FOR SYSTEM_TIME AS OF stream.t ON ...``.

    Args:
        stream: A streaming DataFrame with a watermark, whose rows stay; not a changelog.
        versions: The table, as :func:`versions` makes it of a stream; with ``sj.NOW``, a :func:`table`.
        on: The name of a column that both have, a condition, or a list of either, with an equality for each column of
            the versions' key; ``F.expr("o.item = p.item")`` is a condition in SQL. What the condition asks besides
            decides whether the valid version matches.
        how: ``"inner"``, or ``"left"`` to keep rows for which no version was valid; in any of Spark's spellings.
        as_of: The event-time column of ``stream``, by name or as a Column; without it, the one with a watermark. Or
            ``sj.NOW``: each row meets the table as it is in its batch, and waits for nothing.
        history: How far behind what has come out a row of ``stream`` may come and still meet what was valid at its
            time: text such as ``"1 day"`` or a ``timedelta``; without it, not at all. The versions are kept for so much
            longer, and the output's watermark is behind by as much.
        ordered: In each batch rows come out in the order of ``as_of``. ``False`` saves a shuffle and a sort, such as
            below an aggregation.

    Returns:
        What ``stream.join(versions, on, how)`` returns; in each batch in the order of ``as_of``, unless ``ordered``
        is false. ``as_of`` carries a watermark.

    Raises:
        StreamJoinError: ``STREAMJOIN_WRONG_ARGUMENT``, ``STREAMJOIN_DURATION``, ``STREAMJOIN_JOIN_KEYS``, or any of
            :func:`streamjoin.check`.
        pyspark.errors.AnalysisException: ``STREAMJOIN_EVENT_TIME``; ``STREAMJOIN_TEMPORAL`` (the key is outside the
            equality, the stream is a changelog, another type of join), ``STREAMJOIN_COLUMN``,
            ``STREAMJOIN_NOT_A_STREAM``; ``start()`` raises ``STREAMJOIN_TEMPORAL_TIME`` for an input without a
            watermark, ``STREAMJOIN_OUTPUT_MODE`` in another mode than append, and ``STREAMJOIN_TEMPORAL_DISABLED``. An
            operation that is none fails the query with ``STREAMJOIN_OPERATION``.

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
