"""Upserts: a stream of changes keeps a table, a database or a compacted topic as its rows are now."""

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

    In each batch, what came and went is added up. Then each key has one row, which replaces the one in the target, or
    none, and its row is deleted. Each batch counts once, also if it runs again after a failure.

    Args:
        changes: A streaming DataFrame with a column that says how many copies of a row came, or went where it is
            negative: :func:`streamjoin.delta_join`, ``sj.arrangement(name).changes()``. ``_time`` and ``_version``
            are left out of the rows, with ``diff``: they say when a row changed, and are not part of it.
        target: What has the rows, and exists:

            - ``"catalog.db.table"``, a table of a format with ``MERGE``, such as Delta Lake or Iceberg;
            - ``{"url": "jdbc:...", "dbtable": "orders", "user": ...}``, with the options of
              ``df.write.format("jdbc")``, a table of PostgreSQL, MySQL, MariaDB, H2, Derby, SQL Server, DB2 or Oracle.
              The batch and its number, in the table ``streamjoin_batches`` beside it, are one transaction;
            - ``{"kafka.bootstrap.servers": ..., "topic": ...}``, a compacted topic, with the options of
              ``df.write.format("kafka")``. Its keys and values are JSON; a row that went is a null.
        keys: The columns that identify a row: a column, or a list of columns. Nulls are values in them.
        diff: The column with the number of copies.

    Returns:
        A writer, which is started as any other: ``.trigger(...)``, ``.start(checkpointLocation=...)``. The output mode
        is append or update.

    Raises:
        StreamJoinError: ``STREAMJOIN_WRONG_ARGUMENT``; ``STREAMJOIN_NOT_A_STREAM``; ``STREAMJOIN_COLUMN`` (a Column
            that is computed); or any of :func:`streamjoin.check`.
        pyspark.errors.AnalysisException: At ``start()`` ``STREAMJOIN_UPSERT``, for a key or ``diff`` that is no such
            column, for a table that lacks a column or has one of another type, for keys that Spark tells apart and the
            database does not, for a database or table that cannot be used, and for the complete mode;
            ``STREAMJOIN_UPSERT_TARGET``, where the checkpoint belongs to another target; and
            ``STREAMJOIN_UPSERT_BATCH``, also later, where the database and the checkpoint do not belong together. The
            query fails with ``STREAMJOIN_UPSERT`` where two rows with one key are left after a batch. None of them
            writes anything.

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
            "STREAMJOIN_NOT_A_STREAM",
            call="sj.upsert",
            wanted="a stream of changes",
            found="the DataFrame is of a batch",
            advice="Read it with spark.readStream, or take what sj.delta_join returns.",
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
