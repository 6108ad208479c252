"""Upserts: keep the current rows of a stream of changes in a table, a database or a compacted topic."""

import json
from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from streamjoin._arguments.checks import require_dataframes, wrong_argument
from streamjoin._arguments.columns import ColumnOrName, Key, column_name, columns_of_keys
from streamjoin._spark.checks import check_session
from streamjoin.errors import StreamJoinError


def upsert(
    changes: DataFrame, target: str | Mapping[str, object], keys: Key, *, diff: ColumnOrName = "_diff"
) -> DataStreamWriter:
    """Keep the current rows of a delta join, or of any stream of changes, in a target by key.

    Each batch adds up the copies that were added and removed. Each key then has one row, which replaces the row in the
    target, or none, and the row in the target is deleted. Each batch is applied exactly once, even if it is repeated
    after a failure.

    Args:
        changes: A streaming DataFrame with a column that has the number of copies of a row that are added, or removed
            if it is negative: :func:`streamjoin.delta_join`, ``sj.arrangement(name).changes()``. ``_time``,
            ``_version`` and ``diff`` are not written: they say when a row changed, and are not part of it.
        target: The target of the rows. It has to exist:

            - ``"catalog.db.table"``, a table of a format with ``MERGE``, such as Delta Lake or Iceberg;
            - ``{"url": "jdbc:...", "dbtable": "orders", "user": ...}``, with the options of
              ``df.write.format("jdbc")``, a table of PostgreSQL, MySQL, MariaDB, H2, Derby, SQL Server, DB2 or Oracle.
              The batch and its number, in the table ``streamjoin_batches`` next to it, are one transaction;
            - ``{"kafka.bootstrap.servers": ..., "topic": ...}``, a compacted topic, with the options of
              ``df.write.format("kafka")``. Its keys and values are JSON; a removed row is a null.
        keys: The columns that identify a row: a column, or a list of columns. Nulls are values in them.
        diff: The column with the number of copies.

    Returns:
        A writer. Start it like any other: ``.trigger(...)``, ``.start(checkpointLocation=...)``. The output mode is
        append or update.

    Raises:
        StreamJoinError: ``STREAMJOIN_WRONG_ARGUMENT``; ``STREAMJOIN_NOT_A_STREAM``; ``STREAMJOIN_COLUMN`` (a computed
            Column); or any of :func:`streamjoin.check`.
        pyspark.errors.AnalysisException: ``start()`` raises ``STREAMJOIN_UPSERT`` if a key or ``diff`` is missing, if
            the table lacks a column or has one of another type, if keys differ in Spark but not in the database, if the
            database or table cannot be used, and in complete mode; ``STREAMJOIN_UPSERT_TARGET`` if the checkpoint
            belongs to another target; and ``STREAMJOIN_UPSERT_BATCH``, also later, if the database and the checkpoint
            do not belong together. The query fails with ``STREAMJOIN_UPSERT`` if two rows with one key are left after a
            batch. None of these errors leaves anything written.

    Example:
        >>> changes = sj.arrangement("orders").changes()
        >>> postgres = {"url": "jdbc:postgresql://db/shop", "dbtable": "orders", "user": "shop"}
        >>> writer = upsert(changes, postgres, keys=["order_id"])  # then .start(checkpointLocation=...)
    """
    require_dataframes("sj.upsert", "a streaming DataFrame", changes)
    check_session(changes.sparkSession)
    options = _target_options(target)
    if not changes.isStreaming:
        raise StreamJoinError(
            "STREAMJOIN_NOT_A_STREAM.CHANGES",
            call="sj.upsert",
        )
    found = columns_of_keys(keys, changes, "sj.upsert")
    if len(found) != 1:
        wanted = 'the columns that identify a row, such as keys="id" or keys=["order_id", "line"]'
        raise wrong_argument("sj.upsert", wanted, keys)
    writer = changes.writeStream.format("streamjoin-upsert").options(**options)
    writer = writer.option("keys", json.dumps(found[0]))
    return writer.option("diff", column_name(diff, changes, "sj.upsert", "diff"))


def _target_options(target: object) -> dict[str, str]:
    if isinstance(target, str) and target.strip():
        return {"table": target}
    if isinstance(target, Mapping):
        options = {str(name): str(value) for name, value in target.items()}
        names = {name.lower() for name in options}
        if {"url", "dbtable"} <= names or {"kafka.bootstrap.servers", "topic"} <= names:
            return options
        target = sorted(options)  # the values may be secret
    wanted = (
        'a table by its name, {"url": ..., "dbtable": ...} for a database, '
        'or {"kafka.bootstrap.servers": ..., "topic": ...} for a topic'
    )
    raise wrong_argument("sj.upsert", wanted, target)
