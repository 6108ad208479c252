"""``delta_join``: a join of arrangements that keeps no state of its own."""

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import pairwise
from uuid import uuid4

from pyspark.sql import Column, DataFrame, SparkSession

from streamjoin._arguments.checks import batch_limits, wrong_argument
from streamjoin._arguments.columns import ColumnOrName, actual_name, is_same_name, quote_identifier
from streamjoin._arguments.join_keys import On, texts_or_columns
from streamjoin._arguments.join_types import JoinType, parse_join_type
from streamjoin._spark.calls import call_function, functions_for
from streamjoin._spark.checks import check_session
from streamjoin.arrangements import Arrangement, _path_of, _session_of
from streamjoin.errors import StreamJoinError

_TYPES = ("inner", "left", "right", "full")


def delta_join(
    inputs: Mapping[str, str | Arrangement],
    on: On,
    select: ColumnOrName | Sequence[ColumnOrName] | None = None,
    *,
    how: JoinType | str = "inner",
    max_versions_per_trigger: int | None = None,
    max_rows_per_trigger: int | None = None,
    spark: SparkSession | None = None,
) -> DataFrame:
    """Join arrangements and return the changes of the result as a stream, including updates and deletes.

    A change in one input looks up the other inputs by their indexes, one after another. The query keeps no rows: the
    indexes are those of the arrangements, and all queries share them. EXPLAIN of a batch shows the look-ups. In SQL:
    ``SELECT ... FROM STREAM customers AS c JOIN STREAM orders AS o ON ...``.

    Args:
        inputs: The name of each input in the condition, with the arrangement, its name or its path:
            ``{"o": "orders", "c": "customers"}``. An arrangement may occur twice.
        on: The name of a column that all inputs have, a condition, or a list of either. Because the inputs have names,
            a condition may be text: ``"c.customer_id = o.customer_id"`` is ``F.expr`` of it. Each input has to be
            reached by equalities with the columns of one of its keys. Other conditions, on one input or between inputs,
            may be added.
        select: The columns of the result, in SQL or as Columns. Default: all columns, starting with those that ``on``
            names, each once.
        how: ``"inner"``, or for two inputs ``"left"``, ``"right"`` or ``"full"``: the result then has the rows of the
            first, the second or both without a match, with nulls. In any of Spark's spellings.
        max_versions_per_trigger: The maximum number of versions of each input in a batch.
        max_rows_per_trigger: A new query starts with the existing rows. This limits the rows of each input in a batch
            to about this number.
        spark: The session. Default: the session of the first :class:`Arrangement`, or the active one.

    Returns:
        The columns of ``select``; ``_time``, the latest time of the joined rows, if all inputs were arranged with one;
        and ``_diff``, the number of copies of the row that are added, or removed if it is negative. Changes of one
        batch that cancel each other are not emitted. :func:`streamjoin.arrange` with ``diff="_diff"`` turns the result
        into an arrangement.

    Raises:
        StreamJoinError: ``STREAMJOIN_WRONG_ARGUMENT``; ``STREAMJOIN_JOIN_TYPE``; ``STREAMJOIN_JOIN_KEYS`` (``on``); or
            any of :func:`streamjoin.check`.
        pyspark.errors.AnalysisException: ``STREAMJOIN_NO_ARRANGEMENT``; ``STREAMJOIN_DELTA_INDEX`` (an arrangement
            lacks the key that the condition needs); ``STREAMJOIN_DELTA_CONDITION`` (no equality reaches an input);
            ``STREAMJOIN_DELTA`` (a condition that is not a plain expression, an outer join of more than two).

    Source:
        Materialize, "Delta joins": one path for each input, ties in time broken by the order of the inputs.

    Example:
        >>> changes = delta_join(
        ...     {"c": "customers", "o": "orders"},
        ...     on="c.customer_id = o.customer_id AND o.total > 100",
        ...     select=["c.name", "o.order_id", "o.total"],
        ... )
        >>> changes.columns
        ['name', 'order_id', 'total', '_diff']
    """
    if not isinstance(inputs, Mapping) or not inputs or not all(isinstance(alias, str) for alias in inputs):
        wanted = 'the inputs by their names in the condition, such as {"o": "orders", "c": "customers"}'
        raise wrong_argument("sj.delta_join", wanted, inputs)
    paths = {alias: _path_of(each, "sj.delta_join") for alias, each in inputs.items()}
    texts, conditions = texts_or_columns(on)
    columns = [select] if isinstance(select, ColumnOrName) else [] if select is None else select
    if not isinstance(columns, Sequence) or not all(isinstance(column, ColumnOrName) for column in columns):
        raise wrong_argument("sj.delta_join", "the columns of the result, in SQL or as Columns", select)
    options = batch_limits(
        "sj.delta_join", maxVersionsPerTrigger=max_versions_per_trigger, maxRowsPerTrigger=max_rows_per_trigger
    )
    kind = parse_join_type(how, _TYPES)
    session = _session_of(spark, "sj.delta_join", *inputs.values())
    check_session(session)
    tables = {alias: _changes(session, path, options).alias(alias) for alias, path in paths.items()}
    functions = functions_for(next(iter(tables.values())))
    names = _shared_names(texts, tables)
    if names:
        texts = [_equalities(name, tables) for name in names]
    condition = reduce(Column.__and__, [*map(functions.expr, texts), *conditions])
    chosen = columns or (_all_columns(names, tables, kind) if names else ["*"])
    joined = reduce(DataFrame.crossJoin, tables.values()).where(condition)
    selected = joined.select(*(functions.expr(each) if isinstance(each, str) else each for each in chosen))
    return call_function(selected, "sj_delta_join", names=list(tables), how=kind)


def _changes(session: SparkSession, path: str, options: Mapping[str, str]) -> DataFrame:
    """Return the changes of an arrangement, distinguishable from its other streams in the query."""
    reader = session.readStream.format("streamjoin").options(**options)
    return reader.option("streamjoin.source", str(uuid4())).load(path)


def _row_columns(table: DataFrame) -> list[str]:
    """Return the columns of an arrangement's rows, without those of its changes: the version and the copies."""
    return table.columns[:-2]


def _shared_names(texts: Sequence[str], tables: Mapping[str, DataFrame]) -> list[str]:
    """Return the texts if they are names of columns that all inputs have; return nothing if they are conditions."""
    known = [text for text in texts if any(_has_column(table, text) for table in tables.values())]
    for name in known:
        for alias, table in tables.items():
            if not _has_column(table, name):
                columns = ", ".join(_row_columns(table))
                raise StreamJoinError(
                    "STREAMJOIN_JOIN_KEYS.UNKNOWN", on=repr(name), side=alias, column=name, columns=columns
                )
    if known and len(known) != len(texts):
        raise StreamJoinError("STREAMJOIN_JOIN_KEYS.MIXED", on=repr(texts))
    return known


def _has_column(table: DataFrame, name: str) -> bool:
    return any(is_same_name(column, name) for column in _row_columns(table))


def _qualified(alias: str, table: DataFrame, name: str) -> str:
    return f"{quote_identifier(alias)}.{quote_identifier(actual_name(table, name))}"


def _equalities(name: str, tables: Mapping[str, DataFrame]) -> str:
    """Return the SQL condition that a column is equal in all inputs."""
    columns = [_qualified(alias, table, name) for alias, table in tables.items()]
    # A single input has none, and the extension rejects it.
    return " AND ".join(f"{one} = {other}" for one, other in pairwise(columns)) or "true"


def _all_columns(names: Sequence[str], tables: Mapping[str, DataFrame], how: str) -> list[str]:
    """Return all columns in SQL, the named ones first and only once, as in Spark's join on names."""
    inputs = list(tables.items())
    kept_alias, kept = inputs[-1 if how == "right" else 0]
    first = []
    for name in names:
        each = [_qualified(alias, table, name) for alias, table in inputs]
        value = f"coalesce({', '.join(each)})" if how == "full" else _qualified(kept_alias, kept, name)
        first.append(f"{value} AS {quote_identifier(actual_name(kept, name))}")
    rest = [
        f"{quote_identifier(alias)}.{quote_identifier(column)}"
        for alias, table in inputs
        for column in _row_columns(table)
        if not any(is_same_name(column, name) for name in names)
    ]
    return [*first, *rest]
