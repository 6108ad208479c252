"""Columns and keys, given by their names or as Columns."""

from collections.abc import Sequence
from typing import TypeAlias, cast

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructField, StructType, TimestampType

from streamjoin._arguments.checks import wrong_argument
from streamjoin._spark.calls import call_function
from streamjoin.errors import StreamJoinError

ColumnOrName: TypeAlias = str | Column
"""A column, by its name or as a Column that is nothing but the column: ``"id"``, ``F.col("id")``, ``df.id``."""

Key: TypeAlias = ColumnOrName | Sequence[ColumnOrName]
"""The columns of one key."""


def quote_identifier(name: str) -> str:
    """Return a name quoted for SQL, whatever characters it contains."""
    return "`" + name.replace("`", "``") + "`"


def quote_if_needed(name: str) -> str:
    """Return the name of a column as ``F.col`` takes it: quoted where it would be taken for a field."""
    return quote_identifier(name) if "." in name or "`" in name else name


def is_same_name(one: str, other: str) -> bool:
    """Tell whether two names are one column."""
    return one.casefold() == other.casefold()


def actual_name(df: DataFrame, name: str) -> str:
    """Return the name of a column as the DataFrame spells it."""
    return next(column for column in df.columns if is_same_name(name, column))


def has_unique_column(df: DataFrame, name: str) -> bool:
    """Tell whether a DataFrame has exactly one column with a name."""
    same = [column for column in df.columns if is_same_name(name, column)]
    return len(same) == 1 or (same.count(name) == 1 and df.sparkSession.conf.get("spark.sql.caseSensitive") == "true")


def is_event_time(field: StructField) -> bool:
    """Tell whether a column carries a watermark, by the mark of Spark (``EventTimeWatermark.delayKey``)."""
    return "spark.watermarkDelayMs" in field.metadata and isinstance(field.dataType, TimestampType)


def envelope_rows(df: DataFrame) -> DataFrame | None:
    """Return the rows of the table in Debezium's envelope, or None if it is not an envelope."""
    types = {field.name: field.dataType for field in df.schema.fields}
    structs = all(isinstance(types.get(name), StructType) for name in ("before", "after"))
    return df.select("after.*") if structs else None


def column_name(column: object, df: DataFrame, call: str, argument: str) -> str:
    """Return the name of a column of a DataFrame, or of the table in Debezium's envelope. A name is returned unchanged.

    Args:
        column: A name or a Column.
        df: Where a Column is looked up.
        call: The function that takes it, for the error.
        argument: The argument that names it, for the error.

    Raises:
        StreamJoinError: ``STREAMJOIN_WRONG_ARGUMENT``; ``STREAMJOIN_COLUMN`` for a Column that the DataFrame
            does not have.
        pyspark.errors.AnalysisException: ``STREAMJOIN_COLUMN`` for a Column that is computed.

    Example:
        >>> column_name("id", events, "sj.versions", "key"), column_name(events.id, events, "sj.versions", "key")
        ('id', 'id')
    """
    if isinstance(column, Column):
        return _resolve_name(column, df, call, argument)
    if isinstance(column, str) and column.strip():
        return column
    raise wrong_argument(call, f'a column as {argument}, by its name or as F.col("name")', column)


def column_path(column: object, df: DataFrame, call: str, argument: str) -> str:
    """Return the name of a column as Spark parses it, where a dot leads to a field."""
    name = column_name(column, df, call, argument)
    return name if isinstance(column, str) or isinstance(name, _FieldPath) else quote_if_needed(name)


def key_columns(key: object, df: DataFrame, call: str) -> list[str]:
    """Return the names of the columns of a key, which is one column or a list of them.

    Raises:
        StreamJoinError: ``STREAMJOIN_WRONG_ARGUMENT``, ``STREAMJOIN_COLUMN``.
    """
    columns = _columns_of(key)
    if not columns:
        raise wrong_argument(call, 'the columns of the key, such as key="id" or key=["country", "city"]', key)
    return [column_path(each, df, call, "key") for each in columns]


def columns_of_keys(keys: object, df: DataFrame, call: str) -> list[list[str]]:
    """Return the names of the columns of each key; a column or a flat list of columns is one key.

    Raises:
        StreamJoinError: ``STREAMJOIN_WRONG_ARGUMENT``, ``STREAMJOIN_COLUMN``.
    """
    flat = _columns_of(keys)
    lists = _lists_of_columns(keys) if flat is None else [flat] if flat else []
    if lists is None:
        wanted = (
            'a list of columns for each key, such as keys=[["order_id"], ["customer_id", "day"]], '
            'or the columns of the only one, such as keys="order_id"'
        )
        raise wrong_argument(call, wanted, keys)
    return [[column_name(column, df, call, "keys") for column in key] for key in lists]


class _FieldPath(str):
    """A field of a column, as Spark parses it: ``source.lsn``."""

    __slots__ = ()


def _columns_of(key: object) -> list[ColumnOrName] | None:
    """Return one column or a flat list of columns as a list, or None for anything else."""
    given = [key] if isinstance(key, ColumnOrName) else key
    is_flat = isinstance(given, Sequence) and all(isinstance(column, ColumnOrName) for column in given)
    return list(cast(Sequence[ColumnOrName], given)) if is_flat else None


def _lists_of_columns(keys: object) -> list[list[ColumnOrName]] | None:
    if not isinstance(keys, Sequence) or any(isinstance(key, ColumnOrName) for key in keys):
        return None
    lists = [_columns_of(key) for key in keys]
    return None if None in lists else cast(list[list[ColumnOrName]], lists)


def _resolve_name(column: Column, df: DataFrame, call: str, argument: str) -> str:
    rows = envelope_rows(df)
    unknown: AnalysisException | None = None
    for frame in (df,) if rows is None else (df, rows):
        try:
            found = call_function(frame, "sj_column", column, call=call, argument=argument).schema.fields[0]
            return _FieldPath(found.name) if "streamjoin.path" in found.metadata else found.name
        except AnalysisException as error:
            if not (error.getCondition() or "").startswith(("UNRESOLVED_COLUMN", "CANNOT_RESOLVE_DATAFRAME_COLUMN")):
                raise
            unknown = unknown or error
    raise StreamJoinError(
        "STREAMJOIN_COLUMN.OTHER_DATAFRAME",
        call=call,
        column=str(column),
        columns=", ".join(df.columns),
        argument=argument,
    ) from unknown
