"""``versions``: a stream as the history of a table."""

from collections.abc import Sequence
from typing import NamedTuple, cast

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from streamjoin._join import event_time, quoted
from streamjoin.jvm import expect, wrong_argument


class VersionedStream(NamedTuple):
    """A stream of versions of the rows of a table, as :func:`versions` returns it."""

    changes: DataFrame
    key: list[str]
    time: str
    op: str | None
    order: str | None


def versions(
    changes: DataFrame,
    *,
    key: str | Sequence[str],
    time: str | None = None,
    op: str | None = None,
    order: str | None = None,
) -> VersionedStream:
    """Say how a stream is the history of a table, for :func:`temporal_join`.

    A version is valid from its time on, that instant included, until the next one of its key or a delete. Of versions
    with one key and one time the one with the greater ``order`` wins; without it, or where that is the same too, a row
    wins over a delete, and without it of two rows the one with the greater values, column by column from left to right,
    nulls lowest. Versions may come in any order: one that comes late counts for the rows after it, unless its key has a
    newer one. A version without a key or without a time is left out, and counted as ``ignoredVersions`` in the
    progress.

    Debezium's envelope, known by its columns ``before`` and ``after``, structs with the columns of the key, and ``op``,
    is taken as it is: a row of the table is ``after``, or ``before`` where that is null, and the right side of the join
    has the columns of the table, then ``time``, ``op`` and ``order``. A tombstone, in which all three are null, is left
    out and counted.

    Args:
        changes: A streaming DataFrame with a watermark.
        key: The column or columns that tell the rows of the table apart.
        time: The ``TIMESTAMP`` column, with a watermark, from which on a version is valid; without it, the one with a
            watermark.
        op: A column of text: ``insert``, ``update`` or ``delete``; Debezium's ``c``, ``r``, ``u`` or ``d``; or
            the ``_change_type`` of Spark's ``readStream.changes``. Without it all rows are versions, and none is ever
            deleted; of an envelope it is ``op``. Any other text fails the query with ``STREAMJOIN_OPERATION``.
        order: A column that says in which order versions of one key and one time came, such as a position in a log.

    Returns:
        What :func:`temporal_join` takes as its second argument.

    Raises:
        StreamJoinError: ``STREAMJOIN_WRONG_ARGUMENT``, ``STREAMJOIN_EVENT_TIME``.
        pyspark.errors.AnalysisException: ``STREAMJOIN_NOT_A_STREAM``, where it looks for ``time`` in a batch.

    Source:
        Flink, "Versioned tables"; Debezium's change events.

    Example:
        >>> versions(deliveries, key="order_id").time
        'delivery_time'
    """
    expect(DataFrame, changes, "sj.versions", "a streaming DataFrame")
    keys = [key] if isinstance(key, str) else list(key) if isinstance(key, Sequence) else []
    if not keys or not all(isinstance(each, str) for each in keys):
        raise wrong_argument("sj.versions", 'the columns of the key, such as key=["id"]', key)
    at = event_time(changes, "right", "sj.versions") if time is None else time
    if not _is_envelope(changes, keys):
        return VersionedStream(changes, keys, at, op, order)
    return VersionedStream(_rows_of_table(changes, at, order), keys, at, "op" if op is None else op, order)


def _is_envelope(changes: DataFrame, key: list[str]) -> bool:
    fields = {field.name: field.dataType for field in changes.schema.fields}
    rows = [fields.get("before"), fields.get("after")]
    return "op" in fields and all(isinstance(row, StructType) and set(key) <= set(row.names) for row in rows)


def _rows_of_table(envelope: DataFrame, time: str, order: str | None) -> DataFrame:
    kept = list(dict.fromkeys([time, "op", *([] if order is None else [order])]))
    columns = cast(StructType, envelope.schema["after"].dataType).names
    twice = [name for name in kept if name in columns]
    if twice:
        raise wrong_argument("sj.versions", "names outside before and after that no column of the table has", twice)
    return envelope.select(
        *(F.expr(f"IF(after IS NULL, before, after).{quoted(name)}").alias(name) for name in columns),
        *(name for name in kept if name != "op"),
        F.expr("IF(after IS NULL AND before IS NULL AND op IS NULL, 'd', op)").alias("op"),
    )
