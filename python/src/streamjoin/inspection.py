"""What a query keeps, which input holds the others back, its state as a table, and what a change of it means."""

from pathlib import Path
from typing import Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from streamjoin._arguments.checks import require_dataframes, require_type, wrong_argument
from streamjoin._arguments.queries import session_of
from streamjoin._arguments.renamed import renamed_argument
from streamjoin._arguments.writers import query_of
from streamjoin._display.notebook import with_html_table
from streamjoin._spark.calls import call_function, call_table_function
from streamjoin._spark.checks import check_session


def evolution(df: DataFrame | DataStreamWriter, checkpoint: str | Path) -> DataFrame:
    """Return how a query differs from the one of a checkpoint, and what that means for the state and the results.

    The query is analyzed, not started, and nothing is written. ``spark.streamjoin.evolve`` decides which of the changes
    ``start()`` accepts.

    Args:
        df: The changed query: a streaming DataFrame, before ``writeStream``; or the writer of :func:`arrange`.
        checkpoint: The folder of ``checkpointLocation``, with at least one committed batch.

    Returns:
        A batch DataFrame, which a notebook shows as a table, with a row for each join and change; without changes it
        is empty. Columns: ``join`` (its number, counted from the inputs up; null for a look-up and for a change of the
        whole query), ``what`` (the property that differs), ``was``, ``is``, ``state`` (what happens to the rows in
        state: ``unchanged``, ``rewritten`` or ``rejected``; ``empty`` if a join is added and ``removed`` if it is
        removed; ``not affected`` for a look-up), ``results`` (``exact``; ``complete from`` an event time; ``none`` if
        the change is rejected) and ``advice``. Settings that rewrite the state are listed as well, as ``partitions``
        and ``state_store``.

    Raises:
        StreamJoinError: ``STREAMJOIN_WRONG_ARGUMENT``, or any of :func:`streamjoin.check`.
        pyspark.errors.AnalysisException: ``STREAMJOIN_NOT_A_STREAM``, ``STREAMJOIN_NO_STATE``; or the ``STREAMJOIN_``
            condition of a join that ``start()`` would reject.

    Source:
        Feldera, ``bootstrap_policy``.

    Example:
        >>> joined = sj.join(orders, deliveries, "order_id", within=("0 seconds", "1 hour"))
        >>> query = joined.writeStream.start(format="noop", checkpointLocation="checkpoints/evolving")
        >>> query.processAllAvailable()
        >>> query.stop()
        >>> shorter = sj.join(orders, deliveries, "order_id", within=("0 seconds", "30 minutes"))
        >>> [(row.what, row.state, row.results) for row in evolution(shorter, "checkpoints/evolving").collect()]
        [('bound', 'unchanged', 'exact')]
    """
    query = query_of(df)
    require_dataframes("sj.evolution", "the streaming DataFrame with the joins, before writeStream", query)
    if not isinstance(checkpoint, str | Path):
        raise wrong_argument("sj.evolution", "the path of a checkpoint", checkpoint)
    check_session(query.sparkSession)
    return with_html_table(call_function(query, "sj_evolution", checkpoint=str(checkpoint)))


def explain_analyze(query: StreamingQuery, with_skew: bool = False) -> DataFrame:
    """Return what the joins of a query keep, which input holds the others back, and hints about what stands out.

    Args:
        query: A streaming query that is running, or has stopped in this driver. A stopped query returns its last
            figures.
        with_skew: Add a row for each task.

    Returns:
        A DataFrame, which a notebook shows as a table, with the figures after the last batch. It has a row for each
        operator of streamjoin that keeps rows and for each of its inputs, as an indented plan. It is empty before the
        first batch. Columns:

        - ``plan``: the operator or input, indented; ``operator`` (its number, counted from the inputs up), ``side``
          (``left`` or ``right``) and ``task``, where they apply;
        - ``rows_in``, ``rows_out``, ``late`` and ``padded``: rows of the last minute; for a task, rows of the last
          batch;
        - ``rows_kept``, ``bytes_kept`` (the rows themselves) and ``memory`` (bytes of the index);
        - ``ms``: time of the last batch by phase, in milliseconds, added up over all tasks;
        - ``watermarks``: for each event-time column by which rows leave, an array of ``column``, ``watermark``,
          ``lag_ms`` (behind its newest row) and ``held_by`` (the input that decides it); times are text in UTC, such as
          ``2026-01-01T09:10:00Z``;
        - ``oldest``: the earliest event time in state. The row leaves once the watermark of ``leaves_by`` is later than
          ``leaves_after``;
        - ``rows_ratio``, ``bytes_ratio`` and ``ms_ratio``: the ratio of a task to the average of all tasks;
        - ``hot_keys``: for an input, with ``with_skew``: an array of ``key`` and ``share``, the keys with 5 % or more
          of its rows, estimated by a sketch of a part of the rows;
        - ``hints``: sentences that say what to change.

    Raises:
        StreamJoinError: ``STREAMJOIN_NOT_A_STREAM``, ``STREAMJOIN_WRONG_ARGUMENT``, or any of :func:`streamjoin.check`.
        pyspark.errors.AnalysisException: ``STREAMJOIN_TABLE_FUNCTION`` if the query is not known.

    Source:
        Materialize, ``EXPLAIN ANALYZE``.

    Example:
        >>> joined = sj.join(orders, deliveries, "order_id", within=("0 seconds", "1 hour"))
        >>> query = joined.writeStream.start(format="noop", checkpointLocation="checkpoints/explained")
        >>> query.processAllAvailable()
        >>> [row.plan for row in explain_analyze(query).collect()]
        ['1 inner interval join', '  left: left', '  right: right']
        >>> query.stop()
    """
    require_type(bool, with_skew, "sj.explain_analyze", "with_skew=True or with_skew=False")
    spark = session_of(query, "sj.explain_analyze")
    check_session(spark)
    return with_html_table(call_table_function(spark, "sj_explain_analyze", str(query.id), with_skew))


@renamed_argument("of", "query")
def why(query: StreamingQuery | str, condition: str, batches: int = 10) -> DataFrame:
    """Return what has become of the rows of a join's inputs that satisfy a condition.

    It reads the state after each of the last batches, and the late rows if they are kept
    (``spark.streamjoin.lateRows=keep``). The query continues meanwhile.

    Args:
        query: A streaming query, running or stopped, or the path of a checkpoint.
        condition: SQL text on the columns of an input: ``"order_id = 42"``. Inputs without these columns are skipped.
            If an input has several columns of one name, as in the output of another join, the name stands for any.
        batches: The number of batches to look back. A row that entered and left the state before them is not found.
            Each batch costs one read of the state.

    Returns:
        A DataFrame, which a notebook shows as a table, with a row for each row that was found in an input of an
        operator, or a single row that says that there is none: ``operator``, ``side`` and ``input`` (as in
        :func:`streamjoin.state`), ``row`` (as JSON), ``outcome``, ``batch`` (in which the row left or was late, else
        the last batch) and ``why``. ``outcome`` is ``waiting`` (in state, and the operator records whether the row has
        matched), ``kept`` (in state, and the operator does not record it), ``left``, ``late`` or ``not seen``. ``why``
        is a sentence: the first match of the row, which watermark has to reach which time and which input decides that,
        or by how much the row was late.

    Raises:
        StreamJoinError: ``STREAMJOIN_NOT_A_STREAM``, ``STREAMJOIN_WRONG_ARGUMENT``, or any of :func:`streamjoin.check`.
        pyspark.errors.AnalysisException: ``STREAMJOIN_NO_STATE``, ``STREAMJOIN_TABLE_FUNCTION`` if no input has the
            columns.

    Example:
        >>> joined = sj.join(orders, deliveries, "order_id", within=("0 seconds", "1 hour"))
        >>> query = joined.writeStream.start(format="noop", checkpointLocation="checkpoints/why")
        >>> query.processAllAvailable()
        >>> [row.outcome for row in why(query, "order_id = 42").collect()]
        ['not seen']
        >>> query.stop()
    """
    require_type(str, condition, "sj.why", 'a condition as text: "order_id = 42"')
    if not isinstance(batches, int) or isinstance(batches, bool) or batches < 1:
        raise wrong_argument("sj.why", "a positive number as batches", batches)
    spark, _, which = _query_or_checkpoint(query, "sj.why")
    return with_html_table(call_table_function(spark, "sj_why", which, condition, batches))


def _query_or_checkpoint(query: StreamingQuery | str, call: str) -> tuple[SparkSession, str, str]:
    """Return the session, and the option of the reader with its value, for a query or a checkpoint."""
    if isinstance(query, str):
        spark = SparkSession.active()
        found = (spark, "checkpoint", query)
    else:
        spark = session_of(query, call, "or the path of a checkpoint, as text")
        found = (spark, "query", str(query.id))
    check_session(spark)
    return found


@renamed_argument("of", "query")
def state(
    query: StreamingQuery | str,
    operator: int | None = None,
    side: str | None = None,
    batch: int | None = None,
    times: Literal["text"] | None = None,
) -> DataFrame:
    """Return the operators with state in a checkpoint or, for one operator, the rows that it keeps.

    Nothing in the checkpoint changes, and its query may be running or not.

    Args:
        query: A streaming query, running or stopped, or the path of a checkpoint.
        operator: The number of an operator, starting at 1. ``state(of)`` lists the operators.
        side: ``"left"`` or ``"right"``, for the rows of one input.
        batch: Return the state after this batch. Default: the last committed batch. Older batches are available as long
            as Spark keeps their state, ``spark.sql.streaming.minBatchesToRetain``.
        times: ``"text"`` to return all times and dates as text, and timestamps in UTC, ``2026-01-01T09:10:00Z``. A
            corrupt row may have a time that Python's ``datetime`` cannot represent, such as one in the year 58874.

    Returns:
        A DataFrame. Without ``operator``, it has a row for each operator and input: ``operator`` (its number),
        ``title``, ``side``, ``input`` (its name), ``columns``, ``partitions``, ``first_batch`` and ``last_batch``
        (those that can be read). With ``operator``, it has a row for each row in state: ``partition``, ``side``,
        ``input``, the row as a struct in ``left`` or ``right`` (in ``row``, if the operator keeps the rows of one
        input), ``time`` (its event time), ``leaves_by`` and ``leaves_after`` (the row leaves once the watermark of
        ``leaves_by`` is later than ``leaves_after``), ``matched`` (null if it is not recorded), ``kept_as`` (``row``;
        for a table ``newest of its key`` or ``deletion of its key``), ``segment`` and ``batch`` (the batch that wrote
        the segment).

    Raises:
        StreamJoinError: ``STREAMJOIN_NOT_A_STREAM``, ``STREAMJOIN_WRONG_ARGUMENT``, or any of :func:`streamjoin.check`.
        pyspark.errors.AnalysisException: ``STREAMJOIN_NO_STATE``, ``STREAMJOIN_OPTION``.

    Source:
        Spark, the ``statestore`` data source.

    Example:
        >>> joined = sj.join(orders, deliveries, "order_id", within=("0 seconds", "1 hour"))
        >>> query = joined.writeStream.start(format="noop", checkpointLocation="checkpoints/kept")
        >>> query.processAllAvailable()
        >>> state(query, operator=1, side="left").columns[:7]
        ['partition', 'side', 'input', 'left', 'time', 'leaves_by', 'leaves_after']
        >>> query.stop()
    """
    for name, number in (("operator", operator), ("batch", batch)):
        if number is not None and (not isinstance(number, int) or isinstance(number, bool)):
            raise wrong_argument("sj.state", f"a whole number as {name}", number)
    if times not in (None, "text"):
        raise wrong_argument("sj.state", 'times="text", or no times', times)
    spark, kind, which = _query_or_checkpoint(query, "sj.state")
    options = {"operator": operator, "side": side, "batch": batch, "times": times}
    given = {name: value for name, value in options.items() if value is not None}
    return spark.read.format("streamjoin").option(kind, which).options(**given).load()
