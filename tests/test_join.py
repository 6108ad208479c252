"""`join` with and without `within`, durations, and the bounds of a join.

Errors are checked by their condition and by the fix that they name.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import pytest
from conftest import LONG, rejected
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from queries import finish, settings, write_file

import streamjoin as sj
from streamjoin._arguments.durations import to_microseconds

# within -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5 seconds", timedelta(seconds=5)),
        ("1 second", timedelta(seconds=1)),
        ("1 hour 30 minutes", timedelta(minutes=90)),
        ("1 hour, 30 minutes", timedelta(minutes=90)),
        ("INTERVAL 2 Days", timedelta(days=2)),
        ("10m", timedelta(minutes=10)),
        ("5s", timedelta(seconds=5)),
        ("1h30m", timedelta(minutes=90)),
        ("1 week", timedelta(days=7)),
        ("2w 1d", timedelta(days=15)),
        ("250 ms", timedelta(milliseconds=250)),
        ("7 microseconds", timedelta(microseconds=7)),
        ("3us", timedelta(microseconds=3)),
        ("1.5 seconds", timedelta(milliseconds=1500)),
        ("0 seconds", timedelta()),
        ("10 min 3 sec", timedelta(seconds=603)),
        ("1 hour -30 minutes", timedelta(minutes=30)),
        (timedelta(hours=2, microseconds=1), timedelta(hours=2, microseconds=1)),
    ],
)
def test_durations(text: str | timedelta, expected: timedelta) -> None:
    assert to_microseconds(text) == expected // timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is empty"),
        ("interval", "it is empty"),
        ("5", "not a number followed by a unit"),
        ("seconds", "not a number followed by a unit"),
        ("5 secs and 3 minutes", "'and 3 minutes' is not a number followed by a unit"),
        ("5 fortnights", "'fortnights' is not a unit of time"),
        ("1 month", "the length of a month varies; write it in days"),
        ("2 years 1 day", "the length of a year varies"),
        ("-5 seconds", "it is negative"),
        (timedelta(seconds=-1), "it is negative"),
        ("1.5 microseconds", "not a whole number of microseconds"),
        ("200000000 days", "longer than a Spark interval can be"),
        (5, "it is of type int, which has no unit"),
    ],
)
def test_what_is_no_duration(text: Any, reason: str) -> None:
    rejected("STREAMJOIN_WITHIN", lambda: to_microseconds(text), reason)
    rejected("STREAMJOIN_WITHIN", lambda: to_microseconds(text), "Write for example")


# join ---------------------------------------------------------------------------------------------

TYPES = ["inner", "left_outer", "right_outer", "full_outer", "left_semi", "left_anti"]
TIMES = [("ordered", "delivered"), ("time", "time")]
# `make test` has each type with different names and with one name by turns.
TYPES_AND_TIMES = [
    (how, times) for at, how in enumerate(TYPES) for number, times in enumerate(TIMES) if LONG or (at + number) % 2 == 0
]
ORDERS = [(1, 0, "a"), (1, 100, "b"), (2, 50, "c"), (3, 7, "d"), (None, 10, "e")]
DELIVERIES = [(1, 5, "p"), (1, 105, "q"), (1, 106, "r"), (2, 44, "s"), (4, 1, "t"), (None, 10, "u")]


def event_times(df: DataFrame, name: str) -> DataFrame:
    """Mark seconds as an event time, as `withWatermark` does for a stream (a batch DataFrame loses the mark)."""
    marked = F.timestamp_seconds(name).alias(name, metadata={"spark.watermarkDelayMs": 0})
    return df.select(*[marked if column == name else F.col(f"`{column}`") for column in df.columns])


def inputs(spark: SparkSession, left_time: str, right_time: str) -> tuple[DataFrame, DataFrame]:
    left = spark.createDataFrame(ORDERS, f"id INT, {left_time} LONG, item STRING")
    right = spark.createDataFrame(DELIVERIES, f"id INT, {right_time} LONG, van STRING")
    return event_times(left, left_time), event_times(right, right_time)


def by_hand(how: str, within: int) -> list[tuple[Any, ...]]:
    """Return the join on the id within some seconds, with the id once: (id, left time, item, right time, van)."""
    return between(how, -within, within)


def between(how: str, low: int, high: int) -> list[tuple[Any, ...]]:
    """Return the join with ``right time - left time`` between two numbers of seconds."""
    pairs = [
        (o, d) for o in ORDERS for d in DELIVERIES if o[0] is not None and o[0] == d[0] and low <= d[1] - o[1] <= high
    ]
    matched_left, matched_right = {o for o, _ in pairs}, {d for _, d in pairs}
    if how == "left_semi":
        return [o for o in ORDERS if o in matched_left]
    if how == "left_anti":
        return [o for o in ORDERS if o not in matched_left]
    rows: list[tuple[Any, ...]] = [(*o, *d[1:]) for o, d in pairs]
    if how in ("left_outer", "full_outer"):
        rows += [(*o, None, None) for o in ORDERS if o not in matched_left]
    if how in ("right_outer", "full_outer"):
        rows += [(d[0], None, None, *d[1:]) for d in DELIVERIES if d not in matched_right]
    return rows


def rows_of(df: DataFrame) -> list[tuple[Any, ...]]:
    return in_order(
        tuple(int(value.timestamp()) if isinstance(value, datetime) else value for value in row) for row in df.collect()
    )


def in_order(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=repr)


@pytest.mark.parametrize(("how", "times"), TYPES_AND_TIMES)
def test_join_on_a_name_within(spark: SparkSession, how: Any, times: tuple[str, str]) -> None:
    left, right = inputs(spark, *times)
    joined = sj.join(left, right, "id", how, within="6 seconds")
    assert joined.columns == left.join(right, "id", how).columns
    assert rows_of(joined) == in_order(by_hand(how, 6))
    assert rows_of(sj.join(left, right, ["ID"], how, within=timedelta(seconds=5))) == in_order(by_hand(how, 5))


@pytest.mark.parametrize(("how", "times"), TYPES_AND_TIMES)
def test_join_within_two_limits(spark: SparkSession, how: Any, times: tuple[str, str]) -> None:
    left, right = inputs(spark, *times)
    limits = ((0, 6), (-6, 0), (-6, -1), (1, 5), (5, 5))
    for low, high in limits if LONG else limits[TYPES.index(how) % 2 :: 2]:
        joined = sj.join(left, right, "id", how, within=(f"{low} seconds", timedelta(seconds=high)))
        assert rows_of(joined) == in_order(between(how, low, high)), (low, high)


@pytest.mark.parametrize(("how", "times"), TYPES_AND_TIMES)
def test_join_on_a_condition_within(spark: SparkSession, how: Any, times: tuple[str, str]) -> None:
    left, right = inputs(spark, *times)
    for on in (left.id == right.id, [left.id == right.id, F.lit(True)]):
        joined = sj.join(left, right, on, how, within="6 seconds")
        assert joined.columns == left.join(right, left.id == right.id, how).columns
        expected = [row if how in ("left_semi", "left_anti") else row[1:] for row in by_hand(how, 6)]
        ids = {"left": left["id"]} if how in ("left_semi", "left_anti") else {"left": left["id"], "right": right["id"]}
        without = joined if "right" not in ids else joined.drop(left["id"]).drop(right["id"])
        assert rows_of(without) == in_order(expected)


def test_the_callers_aliases_and_columns_still_work_after_the_join(spark: SparkSession) -> None:
    left, right = (df.alias(name) for df, name in zip(inputs(spark, "time", "time"), "od", strict=True))
    joined = sj.join(left, right, F.expr("o.id = d.id"), within="6 seconds")
    expected = in_order((row[1], row[3]) for row in by_hand("inner", 6))
    assert rows_of(joined.select("o.time", "d.time")) == expected
    assert rows_of(joined.select(left["time"], right["time"])) == expected
    assert rows_of(sj.join(left, right, "id", within="6 seconds").select("o.time", "d.time")) == expected


@pytest.mark.parametrize("checked", ["true", "false"])
def test_a_stream_joined_with_itself(spark: SparkSession, checked: str) -> None:
    with settings(spark, {"spark.sql.analyzer.failAmbiguousSelfJoin": checked}):
        one, _ = inputs(spark, "time", "time")
        pairs = [(x, y) for x in ORDERS for y in ORDERS if x[0] == y[0] == 1 and abs(x[1] - y[1]) <= 100]
        expected = in_order((x[2], y[2]) for x, y in pairs)
        assert len(expected) == 4

        aliased = sj.join(one.alias("a"), one.alias("b"), F.expr("a.id = b.id AND a.id = 1"), within="100 seconds")
        assert aliased.columns == ["id", "time", "item"] * 2
        assert rows_of(aliased.select("a.item", "b.item")) == expected

        other = one.where("id < 3").withColumnRenamed("item", "other")
        named = sj.join(one.where("id = 1"), other, "id", within="100s")
        assert named.columns == ["id", "time", "item", "time", "other"]
        assert rows_of(named.select("item", "other")) == expected

        nearer = sj.join(one.alias("a"), one.alias("b"), "id", "left_outer", within="99 seconds")
        assert rows_of(nearer.select("a.item", "b.item")) == [*((item, item) for item in "abcd"), ("e", None)]
        assert one.count() == sj.join(one, one, "id", "left_semi", within="1s").count() + 1


def test_keys_come_first_and_once(spark: SparkSession) -> None:
    left = event_times(spark.createDataFrame([("x", 1, "u", 2)], "item STRING, t LONG, `a.b` STRING, id INT"), "t")
    right = event_times(spark.createDataFrame([("u", 2, 2)], "`A.B` STRING, t LONG, Id INT"), "t")
    for how, first in (("inner", ["id", "a.b"]), ("right", ["Id", "A.B"]), ("full", ["id", "a.b"])):
        joined = sj.join(left, right, ["id", "a.b"], how, within="1s")
        assert joined.columns == [*first, "item", "t", "t"]
        assert rows_of(joined) == [(2, "u", "x", 1, 2)]


def test_the_event_time_as_a_key(spark: SparkSession) -> None:
    left, right = inputs(spark, "time", "time")
    for how in ("inner", "right"):
        joined = sj.join(left, right, ["id", "time"], how, within="0 seconds")
        assert joined.columns == ["id", "time", "item", "van"]
        assert joined.count() == {"inner": 0, "right": len(DELIVERIES)}[how]


@pytest.mark.parametrize("how", get_args(sj.JoinType))
def test_every_spelling_of_the_join_types(spark: SparkSession, how: Any) -> None:
    left, right = inputs(spark, "time", "time")
    for within in ("1s", None):
        assert sj.join(left, right, "id", how, within=within).columns == left.join(right, "id", how).columns


def test_without_within_it_is_sparks_join(spark: SparkSession) -> None:
    left, right = inputs(spark, "ordered", "delivered")
    on = (left.id == right.id) & F.expr("delivered BETWEEN ordered AND ordered + INTERVAL 6 SECONDS")
    assert rows_of(sj.join(left, right, on)) == rows_of(left.join(right, on))
    assert rows_of(sj.join(left, right, [on, left.id == 1])) == rows_of(left.join(right, [on, left.id == 1]))


def test_what_join_rejects(spark: SparkSession, tmp_path: Path) -> None:
    left, right = inputs(spark, "ordered", "delivered")
    plain = spark.readStream.schema("id INT, ordered TIMESTAMP").json(str(tmp_path))
    batch = spark.range(1)
    both = left.withColumn("seen", F.col("ordered"))
    windowed, timeless = plain.select("id", F.window("ordered", "1 minute")), plain.select("id")

    def within(left: DataFrame, right: DataFrame, limits: Any = "1s") -> Callable[[], DataFrame]:
        return lambda: sj.join(left, right, "id", within=limits)

    for condition, fix, call in (
        ("STREAMJOIN_JOIN_TYPE", "Write one of: inner, left,", lambda: sj.join(left, right, "id", "cross")),
        ("STREAMJOIN_JOIN_KEYS.MIXED", "do not mix", lambda: sj.join(left, right, ["id", left.id == right.id])),  # type: ignore[arg-type]
        ("STREAMJOIN_JOIN_KEYS.NEITHER", "Write a name", lambda: sj.join(left, right, [])),
        ("STREAMJOIN_JOIN_KEYS.NEITHER", "Write a name", lambda: sj.join(left, right, [7])),  # type: ignore[arg-type]
        ("STREAMJOIN_JOIN_KEYS.UNKNOWN", "its columns are id, delivered, van", lambda: sj.join(left, right, "item")),
        ("STREAMJOIN_WITHIN", "write it in days", within(left, right, "1 month")),
        ("STREAMJOIN_WITHIN", "it is negative", within(left, right, "-1 second")),
        ("STREAMJOIN_WITHIN", "1 limits, not two", within(left, right, ("1s",))),
        ("STREAMJOIN_WITHIN", "above its upper limit", within(left, right, ("1s", "0s"))),
        ("STREAMJOIN_EVENT_TIME.NONE", 'left.withWatermark("ordered", "10 seconds")', within(plain, right)),
        (
            "STREAMJOIN_EVENT_TIME.NONE",
            'right.withWatermark("time", "10 seconds")',
            within(left, timeless),
        ),
        ("STREAMJOIN_NOT_A_STREAM.BOUND", "the right input is a batch", within(left, batch)),
        ("STREAMJOIN_JOIN_KEYS.NO_DECLARED_KEY", "on=F.lit(True)", lambda: sj.join(left, right)),
        ("STREAMJOIN_EVENT_TIME.SEVERAL", "the left input has 2: ordered, seen", within(both, right)),
        ("STREAMJOIN_EVENT_TIME.NONE", "the left input has none", within(windowed, right)),
    ):
        rejected(condition, call, fix)


# Streams, and bounds ------------------------------------------------------------------------------


def stream(spark: SparkSession, folder: Path, time: str) -> DataFrame:
    folder.mkdir(exist_ok=True)
    return spark.readStream.schema(f"id INT, {time} TIMESTAMP").json(str(folder)).withWatermark(time, "10 seconds")


def test_bounds_of_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    orders, deliveries = stream(spark, tmp_path / "o", "ordered"), stream(spark, tmp_path / "d", "delivered")
    shown = sj.bounds(sj.join(orders, deliveries, "id", "left_outer", within="1 hour"))
    assert not shown.isStreaming
    assert shown.columns == ["join", "side", "input", "column", "bound", "keeps", "conjunct", "origin"]
    rows = {row.side: row for row in shown.collect()}
    assert {side: row.column for side, row in rows.items()} == {"left": "ordered", "right": "delivered"}
    assert all("1 hour" in row.keeps for row in rows.values()), rows
    html = shown._repr_html_()
    assert html is not None and "<td>delivered</td>" in html and "delivered &lt;= " in html


def test_bounds_of_a_batch(spark: SparkSession) -> None:
    rejected("STREAMJOIN_NOT_A_STREAM.BOUNDS", lambda: sj.bounds(spark.range(1)), "spark.readStream")


def test_a_stream_joined_with_itself_runs(spark: SparkSession, tmp_path: Path) -> None:
    events = stream(spark, tmp_path / "in", "time")
    rows = [{"id": 1, "time": f"2026-01-01T00:00:{second:02}Z"} for second in (0, 4, 10)]
    write_file(tmp_path / "in" / "1.json", rows, 1)
    joined = sj.join(events.alias("a"), events.alias("b"), F.expr("a.id = b.id"), within="5 seconds")
    seconds = joined.select(F.second("a.time").alias("a"), F.second("b.time").alias("b"))
    finish(seconds.writeStream.format("memory").queryName("self_join"), tmp_path / "checkpoint")
    assert rows_of(spark.table("self_join")) == [(0, 0), (0, 4), (10, 10), (4, 0), (4, 4)]
