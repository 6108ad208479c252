"""Window joins against DuckDB: the same rows with the same rowtimes, in ascending order over all batches.

The inputs are those of ``test_oracle.py``. ``STREAMJOIN_SEEDS`` is the number of traces, ``STREAMJOIN_FIRST_SEED`` the
first of them.
"""

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from conftest import rejected, seeds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from queries import finish
from side import START, TYPES
from test_oracle import Trace, in_duckdb, random_trace

import streamjoin as sj

# The closing rows are after this time, all other rows before it.
END = START + timedelta(seconds=50_000)
WINDOW = 7

Row = tuple[Any, ...]


@pytest.mark.usefixtures("watermark_before_filter")
@pytest.mark.parametrize("seed", seeds(1))
@pytest.mark.parametrize("direction", ["following", "preceding"])
def test_same_rows_as_duckdb_in_order(spark: SparkSession, tmp_path: Path, seed: int, direction: str) -> None:
    trace = random_trace(seed)
    print(f"STREAMJOIN_FIRST_SEED={seed} STREAMJOIN_SEEDS=1")
    left, right = trace.left.stream(spark, tmp_path), trace.right.stream(spark, tmp_path)
    seen: dict[str, list[Row]] = {how: [] for how in TYPES}
    queries = {}
    for how in TYPES:
        window = {direction: timedelta(seconds=WINDOW)}
        joined = sj.window_join(left, right, F.expr("lk = rk"), how, **window)
        columns = [column for column in ("rowtime", "li", "ri") if column in joined.columns]
        writer = joined.select(*columns).writeStream.foreachBatch(_into(seen[how])).trigger(availableNow=True)
        queries[how] = writer.start(checkpointLocation=str(tmp_path / how))
    for how, query in queries.items():
        query.awaitTermination()
        rows = [row for row in seen[how] if row[0] is None or row[0] < END]
        times = [row[0] for row in rows if row[0] is not None]
        assert times == sorted(times), f"{how}, {direction}"
        assert Counter(rows) == _expected(trace, how, direction), f"{how}, {direction}"


def _into(rows: list[Row]) -> Callable[[DataFrame, int], None]:
    def write(batch: DataFrame, _: int) -> None:
        collected = batch.collect()
        # A row without a time has no place in the order.
        rows.extend(tuple(_utc(value) for value in row) for row in collected)

    return write


def _utc(value: Any) -> Any:
    return value.astimezone(START.tzinfo) if isinstance(value, datetime) else value


def _expected(trace: Trace, how: str, direction: str) -> Counter[Row]:
    window = f"INTERVAL '{WINDOW}' SECOND"
    paired, left_alone, right_alone = ("lt", "lt", "rt") if direction == "following" else ("rt", f"lt + {window}", "rt")
    if how in ("left_semi", "left_anti"):
        columns = f"{left_alone}, li"
    else:
        columns = f"CASE WHEN ri IS NULL THEN {left_alone} WHEN li IS NULL THEN {right_alone} ELSE {paired} END"
        columns += ", li, ri"
    condition = f"lk = rk AND rt BETWEEN lt AND lt + {window}"
    found = in_duckdb(trace, f"SELECT {columns} FROM l {TYPES[how]} JOIN r ON {condition}")
    return Counter(tuple(_utc(value) for value in row) for row in found)


def test_an_aggregation_follows(spark: SparkSession, tmp_path: Path) -> None:
    trace = random_trace(1)
    left, right = trace.left.stream(spark, tmp_path), trace.right.stream(spark, tmp_path)
    joined = sj.window_join(left, right, F.expr("lk = rk"), following="7 seconds")
    counted = joined.groupBy(F.window("rowtime", "10 seconds")).count()
    writer = counted.selectExpr("window.start", "count").writeStream.format("memory")
    finish(writer.queryName("counted"), tmp_path / "c")
    found = {
        (_utc(row[0]), row[1]) for row in spark.table("counted").collect() if row[0].astimezone(START.tzinfo) < END
    }
    expected: Counter[datetime] = Counter()
    for row, number in _expected(trace, "inner", "following").items():
        seconds = int((row[0] - START).total_seconds() // 10 * 10)
        expected[START + timedelta(seconds=seconds)] += number
    assert found == set(expected.items())


@pytest.mark.parametrize("on", ["lk", "first.lk = x.lk"])
def test_a_window_join_of_a_window_join_has_one_rowtime(spark: SparkSession, tmp_path: Path, on: str) -> None:
    trace = random_trace(1)
    left, right = trace.left.stream(spark, tmp_path), trace.right.stream(spark, tmp_path)
    first = sj.window_join(left, right, F.expr("lk = rk"), following="7 seconds").drop("lt", "rt").alias("first")
    third = left.withColumnRenamed("li", "xi").alias("x")
    both = sj.window_join(first, third, on if on == "lk" else F.expr(on), preceding="7 seconds")
    assert both.columns.count("rowtime") == 1
    assert both.columns[-1] == "rowtime"
    for chosen in (both.select("rowtime"), both.select("first.rowtime"), both.select(first["rowtime"])):
        assert chosen.columns == ["rowtime"]


def test_a_stream_in_order(spark: SparkSession, tmp_path: Path) -> None:
    side = random_trace(1).left
    side.stream(spark, tmp_path)
    raw = spark.readStream.schema("lk INT, lt TIMESTAMP, lv INT, li INT").option("maxFilesPerTrigger", 1)
    ordered = sj.impose_order(raw.parquet(str(tmp_path / "l")), "LT", f"{side.delay} seconds", sort=True)
    seen: list[Row] = []
    finish(ordered.select("lt", "li").writeStream.foreachBatch(_into(seen)), tmp_path / "c")
    times = [row[0] for row in seen if row[0] is not None]
    assert times == sorted(times)
    # All rows except the late ones and the last one, which no later row releases.
    expected = {row[3] for file in side.files[:-1] for row in file} - side.late
    assert {row[1] for row in seen if row[0] is None or row[0] < END} == expected


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ({}, "neither of the two"),
        ({"following": "1 minute", "preceding": "1 minute"}, "both"),
        ({"following": "0 seconds"}, "without length"),
    ],
)
def test_which_windows_are_rejected(spark: SparkSession, tmp_path: Path, window: dict[str, str], message: str) -> None:
    stream = random_trace(0).left.stream(spark, tmp_path)
    rejected("STREAMJOIN_WINDOW", lambda: sj.window_join(stream, stream, "lk", **window), message)


def test_durations_and_inputs_that_are_rejected(spark: SparkSession, tmp_path: Path) -> None:
    stream = random_trace(0).left.stream(spark, tmp_path)

    def join(left: Any = stream, right: Any = stream, **window: Any) -> Callable[[], DataFrame]:
        return lambda: sj.window_join(left, right, "lk", **(window or {"following": "1 minute"}))

    for window, reason in [
        ("1 month", "the length of a month varies"),
        ("-1 second", "it is negative"),
        ("10 parsecs", "'parsecs' is not a unit of time"),
        (10, "it is of type int, which has no unit"),
    ]:
        for direction in ("following", "preceding"):
            said = f"{direction}={window!r} of sj.window_join cannot be used: {reason}"
            rejected("STREAMJOIN_DURATION", join(**{direction: window}), said)
    rejected("STREAMJOIN_NOT_A_STREAM.INPUT", join(right=spark.createDataFrame([(1, START)], "lk INT, lt TIMESTAMP")))
    rejected("STREAMJOIN_EVENT_TIME.NONE", join(left=stream.drop("lt")))
    rejected("STREAMJOIN_WRONG_ARGUMENT", join(right="r"))
