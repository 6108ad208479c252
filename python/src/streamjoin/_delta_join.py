"""``delta_join``: a join of arrangements that keeps nothing of its own."""

from collections.abc import Mapping, Sequence
from typing import Literal

from pyspark.sql import DataFrame, SparkSession

from streamjoin._arrangement import Arrangement
from streamjoin.errors import StreamJoinError
from streamjoin.jvm import answered, batch_limits, checked_entry, wrong_argument

# By join type, the inputs whose unmatched rows are in the result.
_OUTER = {"inner": [], "left": [0], "right": [1], "full": [0, 1]}


def delta_join(
    inputs: Mapping[str, str | Arrangement],
    on: str,
    select: str | Sequence[str] | None = None,
    *,
    how: Literal["inner", "left", "left_outer", "right", "right_outer", "full", "full_outer"] = "inner",
    max_versions_per_trigger: int | None = None,
    max_rows_per_trigger: int | None = None,
    spark: SparkSession | None = None,
) -> DataFrame:
    """Join arrangements, inserts, updates and deletes included, as a stream of changes of the result.

    What changes in one input looks up the others by their indexes, one after the other. The query keeps no row: the
    indexes are those of the arrangements, and all queries share them. EXPLAIN of a batch shows the ways. In SQL, over
    Spark Connect too: ``SELECT ... FROM STREAM customers AS c JOIN STREAM orders AS o ON ...``.

    Args:
        inputs: What the condition calls each arrangement, and the arrangement, its name or its path:
            ``{"o": "orders", "c": "customers"}``. An arrangement may be there twice.
        on: The condition, in SQL. Each input has to be reached by equalities with the columns of one of its keys.
            Any other condition on one input, or between them, may stand beside.
        select: The columns of the result, in SQL; without it, all.
        how: ``"inner"``, or of two inputs ``"left"``, ``"right"`` or ``"full"``: rows of the first, the second or both
            without a match are in the result, with nulls.
        max_versions_per_trigger: At most so many versions of each input are in a batch.
        max_rows_per_trigger: A new query begins with the rows that are there; then at most about so many rows of each
            input are in a batch.
        spark: The session; without it, the active one.

    Returns:
        The columns of ``select``; ``_time``, the latest time of the rows that were joined, if all inputs were arranged
        with one; and ``_diff``, how many copies of the row came, or went where it is negative. Changes of one batch
        that cancel do not come out. :func:`streamjoin.arrange` with ``diff="_diff"`` makes it an arrangement again.

    Raises:
        StreamJoinError: ``STREAMJOIN_WRONG_ARGUMENT``; ``STREAMJOIN_JOIN_TYPE``; or any of :func:`streamjoin.check`.
        pyspark.errors.AnalysisException: ``STREAMJOIN_NO_ARRANGEMENT``; ``STREAMJOIN_DELTA_INDEX`` (an arrangement
            lacks the key that the condition needs); ``STREAMJOIN_DELTA_CONDITION`` (an input is tied to nothing);
            ``STREAMJOIN_DELTA`` (a condition that is no plain expression, an outer join of more than two).

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
    if not isinstance(inputs, Mapping) or not all(
        isinstance(alias, str) and isinstance(name, str | Arrangement) for alias, name in inputs.items()
    ):
        wanted = 'the inputs by their names in the condition, such as {"o": "orders", "c": "customers"}'
        raise wrong_argument("sj.delta_join", wanted, inputs)
    if not isinstance(on, str):
        raise wrong_argument("sj.delta_join", "the condition in SQL, as a string", on)
    columns = [select] if isinstance(select, str) else [] if select is None else select
    if not isinstance(columns, Sequence) or not all(isinstance(column, str) for column in columns):
        raise wrong_argument("sj.delta_join", "the columns of the result in SQL, as strings", select)
    options = batch_limits(
        "sj.delta_join", maxVersionsPerTrigger=max_versions_per_trigger, maxRowsPerTrigger=max_rows_per_trigger
    )
    outer = _OUTER.get(how.removesuffix("_outer")) if isinstance(how, str) else None
    if outer is None:
        raise StreamJoinError("STREAMJOIN_JOIN_TYPE", how=repr(how), types="inner, left, right, full")
    session = spark or SparkSession.active()
    found = checked_entry(session, "sj.delta_join")
    paths = [each.path if isinstance(each, Arrangement) else each for each in inputs.values()]
    with answered():
        joined = found.deltaJoin(session._jsparkSession, list(inputs.keys()), paths, on, list(columns), outer, options)
    return DataFrame(joined, session)
