"""What ``on`` takes, the same in all joins: names of columns, conditions, or the declared key of a table."""

from collections.abc import Sequence
from functools import reduce
from typing import TypeAlias, cast

from pyspark.sql import Column, DataFrame

from streamjoin._arguments.columns import has_unique_column
from streamjoin._arguments.join_types import parse_join_type
from streamjoin.errors import StreamJoinError

On: TypeAlias = str | Column | Sequence[str] | Sequence[Column]
"""A name or names of columns that both inputs have, or a condition or conditions."""

_KEY = "streamjoin.tableKey"  # On a column of a table's key: all columns of the key; below, its place among them.
_KEY_PLACE = "streamjoin.tableKeyPlace"


def join_on(left: DataFrame, right: DataFrame, on: On | None, how: str) -> DataFrame:
    """Return ``left.join(right, on, how)``, after the checks of ``on`` and ``how``.

    Raises:
        StreamJoinError: ``STREAMJOIN_JOIN_TYPE``, ``STREAMJOIN_JOIN_KEYS``.
    """
    names, condition = names_or_condition(left, right, on)
    return left.join(right, names or condition, parse_join_type(how))


def names_or_condition(left: DataFrame, right: DataFrame, on: On | None) -> tuple[list[str], Column | None]:
    """Return the names of the key columns, or else the condition.

    Raises:
        StreamJoinError: ``STREAMJOIN_JOIN_KEYS``.
    """
    names, conditions = texts_or_columns(_default_names(left, right) if on is None else on)
    for side, df in (("left", left), ("right", right)):
        for name in names:
            if not has_unique_column(df, name):
                raise StreamJoinError(
                    "STREAMJOIN_JOIN_KEYS.UNKNOWN",
                    on=repr(on),
                    side=side,
                    column=name,
                    columns=", ".join(df.columns),
                )
    return names, reduce(Column.__and__, conditions) if conditions else None


def texts_or_columns(on: object) -> tuple[list[str], list[Column]]:
    """Return the texts or the Columns of ``on``, which is one of them or a list.

    Raises:
        StreamJoinError: ``STREAMJOIN_JOIN_KEYS`` if it contains neither or both.
    """
    given = [on] if isinstance(on, str | Column) else list(on) if isinstance(on, Sequence) else []
    texts = [each for each in given if isinstance(each, str)]
    columns = [each for each in given if isinstance(each, Column)]
    if not given or len(given) != max(len(texts), len(columns)):
        mixed = len(given) == len(texts) + len(columns) > 0
        raise StreamJoinError("STREAMJOIN_JOIN_KEYS.MIXED" if mixed else "STREAMJOIN_JOIN_KEYS.NEITHER", on=repr(on))
    return texts, columns


def _default_names(left: DataFrame, right: DataFrame) -> list[str]:
    """Return the key columns by which a table is joined if ``on`` is left out."""
    keys = {side: key for side, df in (("left", left), ("right", right)) if (key := table_key(df))}
    if not keys:
        raise StreamJoinError("STREAMJOIN_JOIN_KEYS.NO_DECLARED_KEY", on="None")
    for side, df in (("left", left), ("right", right)):
        if side not in keys and not df.isStreaming:
            raise StreamJoinError("STREAMJOIN_JOIN_KEYS.UNDECLARED_SIDE", on="None", side=side)
    names, *others = keys.values()
    for other in others:
        if {name.casefold() for name in names} != {name.casefold() for name in other}:
            raise StreamJoinError("STREAMJOIN_JOIN_KEYS.KEYS_DIFFER", on="None", keys=f"{names} and {other}")
    for side, df in (("left", left), ("right", right)):
        missing = [name for name in names if not has_unique_column(df, name)]
        if missing:
            raise StreamJoinError(
                "STREAMJOIN_JOIN_KEYS.KEY_NOT_IN_INPUT",
                on="None",
                key=str(names),
                side=side,
                missing=", ".join(missing),
                columns=", ".join(df.columns),
                example=missing[0],
            )
    return names


def table_key(df: DataFrame) -> list[str] | None:
    """Return the current names of the columns of a table's key, if it is a table and has all of them."""
    if df.isStreaming:
        return None
    marked = [(field.metadata[_KEY_PLACE], field) for field in df.schema.fields if _KEY in field.metadata]
    places = sorted(place for place, _ in marked)
    if not marked or places != list(range(len(marked[0][1].metadata[_KEY]))):
        return None
    return [field.name for _, field in sorted(marked, key=lambda each: cast(int, each[0]))]
