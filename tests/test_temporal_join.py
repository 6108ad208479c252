"""``sj.temporal_join`` and ``sj.asof_join``; the traces test their rules, in the core and in Spark."""

import json
import random
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal

import duckdb
import pytest
from conftest import LONG, rejected
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from queries import Inputs, Values

import streamjoin as sj

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


class Streams(Inputs):
    """Two streams, and the rows of a join of them."""

    def add(self, **rows: list[Values]) -> None:
        """Add a file to each stream."""
        for name, each in rows.items():
            self.feed(name, *each)

    def orders(self) -> DataFrame:
        return self.stream("orders", "currency STRING, order_time TIMESTAMP, cents INT", "order_time")

    def rates(self) -> DataFrame:
        return self.stream("rates", "code STRING, since TIMESTAMP, rate INT, op STRING", "since")

    def rows(self, df: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
        """Return the rows of a join over everything fed so far, in their order."""
        found: list[tuple[Any, ...]] = []
        writer = df.select(*columns).writeStream.foreachBatch(lambda rows, _: found.extend(map(tuple, rows.collect())))
        query = writer.start(checkpointLocation=self.checkpoint("joined"))
        query.processAllAvailable()
        query.stop()
        return found


@pytest.fixture
def streams(spark: SparkSession, tmp_path: Path) -> Streams:
    return Streams(spark, tmp_path)


def order(currency: str | None, seconds: float, cents: int = 1) -> Values:
    return {"currency": currency, "order_time": at(seconds), "cents": cents}


def rate(code: str, seconds: float, value: int, op: str = "insert") -> Values:
    return {"code": code, "since": at(seconds), "rate": value, "op": op}


def test_the_example_of_the_document(streams: Streams) -> None:
    """An insert at 2, a delete at 6: the row of 5 matches the version, the row of 7 matches none."""
    streams.add(orders=[order("EUR", 7, 7), order("EUR", 5, 5)], rates=[rate("EUR", 2, 2), rate("EUR", 6, 0, "delete")])
    streams.add(orders=[order("X", 20)], rates=[rate("X", 20, 0)])
    versions = sj.versions(streams.rates(), key="code", op="op")
    joined = sj.temporal_join(streams.orders(), versions, F.expr("currency = code"), "left")
    assert streams.rows(joined, "cents", "rate") == [(5, 2), (7, None)]


def test_names_and_arguments(streams: Streams) -> None:
    streams.add(orders=[order("EUR", 7, 7)], rates=[rate("EUR", 2, 2), rate("EUR", 7, 3, "u")])
    streams.add(orders=[order("X", 20)], rates=[rate("X", 20, 0)])
    rates = streams.rates().withColumnRenamed("code", "currency")
    versions = sj.versions(rates, key=["currency"], time="since")
    joined = sj.temporal_join(streams.orders(), versions, "currency", as_of="order_time", history=timedelta(hours=1))
    assert joined.columns == ["currency", "order_time", "cents", "since", "rate", "op"]
    assert streams.rows(joined, "currency", "cents", "rate") == [("EUR", 7, 3)]


ROW = "STRUCT<code: STRING, rate: INT>"
ENVELOPE = f"before {ROW}, after {ROW}, op STRING, ts_ms BIGINT"


def test_the_envelope_of_debezium(streams: Streams) -> None:
    """As from Kafka: an update to null, a delete with nothing but the key, a tombstone, a transaction."""

    def change(op: str, seconds: int, before: Values | None, after: Values | None) -> Values:
        milliseconds = int(at(seconds).timestamp() * 1000)
        return {"value": json.dumps({"before": before, "after": after, "op": op, "ts_ms": milliseconds})}

    two, three, none = ({"code": "EUR", "rate": rate} for rate in (2, 3, None))
    log = [
        change("r", 1, None, two),
        change("u", 3, two, none),
        change("u", 5, none, three),
        change("d", 7, {"code": "EUR"}, None),
        {"value": None},
        # One transaction: insert, delete, insert, delete.
        *(change(op, 9, None if op == "c" else two, two if op == "c" else None) for op in "cdcd"),
    ]
    end = change("c", 100, None, {"code": "X", "rate": 0})
    facts = [order("EUR", second, second) for second in (0, 2, 4, 6, 8, 10)]
    streams.add(orders=facts, log=[row | {"offset": offset} for offset, row in enumerate(log)])
    streams.add(orders=[order("X", 100, -1)], log=[end | {"offset": len(log)}])
    streams.add(orders=[order("X", 101, -1)], log=[end | {"offset": len(log) + 1}])

    kafka = streams.stream("log", "value STRING, offset LONG")
    changes = kafka.select(F.from_json("value", ENVELOPE).alias("e"), "offset")
    envelope = changes.select("e.*", "offset", F.timestamp_millis("e.ts_ms").alias("since"))
    envelope = envelope.withWatermark("since", "0 seconds")
    versions = sj.versions(envelope, key="code", time="since", op="op", order="offset")
    assert versions.changes.columns == ["code", "rate", "since", "offset", "op"]
    joined = sj.temporal_join(streams.orders(), versions, F.expr("currency = code"), "left")

    found: list[tuple[Any, ...]] = []
    selected = joined.select("cents", "code", "rate")
    query = selected.writeStream.foreachBatch(lambda batch, _: found.extend(map(tuple, batch.collect()))).start()
    query.processAllAvailable()
    ignored = [each["stateOperators"][0]["customMetrics"]["ignoredVersions"] for each in query.recentProgress]
    matched = {2: ("EUR", 2), 4: ("EUR", None), 6: ("EUR", 3)}
    assert found[:6] == [(cents, *matched.get(cents, (None, None))) for cents in (0, 2, 4, 6, 8, 10)]
    assert sum(ignored) == 1, "the tombstone"


def test_an_envelope_without_an_order_or_with_its_names_twice(streams: Streams) -> None:
    streams.add(log=[])
    envelope = streams.stream("log", f"{ENVELOPE}, since TIMESTAMP", "since")
    assert sj.versions(envelope, key=["code"]).op == "op"
    assert sj.versions(envelope, key=["code"]).changes.columns == ["code", "rate", "since", "op"]
    # It is not an envelope if the key is not in the rows, or if there are no rows.
    for other in (envelope.withColumn("id", F.lit(1)), envelope.withColumn("after", F.lit(1)), envelope.drop("op")):
        assert sj.versions(other, key="id").changes is other
    twice = sj.versions(envelope.withColumnRenamed("since", "rate"), key="CODE", order=F.col("after.rate"))
    assert twice.changes.columns == ["code", "rate", "_envelope_rate", "op"]
    assert (twice.time, twice.order, twice.op) == ("_envelope_rate", "rate", "op")
    nested = envelope.withColumn("source", F.struct(F.lit(1).alias("lsn"), F.lit(2).alias("rate")))
    assert sj.versions(nested, key="code", order="source.lsn").order == "lsn"
    by_column = sj.versions(nested, key="code", order=F.col("source.rate"), unavailable=None)
    assert (by_column.order, by_column.unavailable) == ("_envelope_source_rate", None)
    of_the_row = partial(sj.versions, envelope, key="code", time="after.rate")
    rejected("STREAMJOIN_COLUMN.TIME_OF_TABLE", of_the_row, "timestamp_millis")


def test_joins_of_spark_are_ours_where_both_sides_stream(streams: Streams) -> None:
    """`df._joinAsOf` from Python; SparksAsOfJoinSuite tests its options."""
    streams.add(orders=[order("EUR", 7, 7), order("USD", 5, 5)], rates=[rate("EUR", 2, 2), rate("EUR", 6, 3)])
    streams.add(orders=[order("X", 20)], rates=[rate("X", 20, 0)])
    rates = streams.rates().withColumnRenamed("code", "currency")
    joined = streams.orders()._joinAsOf(
        rates, "order_time", "since", on="currency", how="left", tolerance=F.expr("INTERVAL 5 SECONDS")
    )
    assert streams.rows(joined, "cents", "rate") == [(5, None), (7, 3)]


RULES: list[tuple[str, dict[str, Any], str]] = [
    ("backward", {}, "r.since <= l.order_time"),
    ("backward, by a condition", {"match": "l.order_time >= r.since"}, "r.since <= l.order_time"),
    ("strictly before", {"match": "l.order_time > r.since"}, "r.since < l.order_time"),
    (
        "with a tolerance",
        {"match": F.expr, "tolerance": "10 seconds"},
        "r.since <= l.order_time AND r.since >= l.order_time - INTERVAL 10 SECONDS",
    ),
    (
        "forward",
        {"direction": "forward", "tolerance": "10 seconds", "allow_exact_matches": False},
        "r.since > l.order_time AND r.since <= l.order_time + INTERVAL 10 SECONDS",
    ),
    (
        "nearest",
        {"direction": "nearest", "tolerance": timedelta(seconds=10)},
        "abs(epoch_ms(r.since) - epoch_ms(l.order_time)) <= 10000",
    ),
]


# `make test` has every other rule, with the types by turns.
RULES_AND_TYPES = [
    (*rule, how)
    for number, rule in enumerate(RULES)
    for at, how in enumerate(("inner", "left"))
    if LONG or number % 4 == 2 * at
]


@pytest.mark.parametrize(
    ("options", "candidates", "how"),
    [case[1:] for case in RULES_AND_TYPES],
    ids=[f"{name}-{how}" for name, _, _, how in RULES_AND_TYPES],
)
def test_the_closest_as_duckdb_finds_it(
    streams: Streams, options: dict[str, Any], candidates: str, how: Literal["inner", "left"]
) -> None:
    chance = random.Random(f"{candidates}{how}")
    moments = [chance.sample(range(0, 300), 40) for _ in range(2)]  # no two rates of one time, so there are no ties
    orders = [order(chance.choice(["A", "B", "C"]), each, number) for number, each in enumerate(moments[0])]
    rates = [rate(chance.choice(["A", "B"]), each, number) for number, each in enumerate(moments[1])]
    by_time = sorted(orders, key=lambda row: row["order_time"]), sorted(rates, key=lambda row: row["since"])
    for part in range(4):
        streams.add(orders=by_time[0][part * 10 : part * 10 + 10], rates=by_time[1][part * 10 : part * 10 + 10])
    streams.add(orders=[order("end", 1000, -1)], rates=[rate("end", 1000, -1)])
    streams.add(orders=[order("end", 1001, -2)], rates=[rate("end", 1001, -2)])

    given = dict(options)
    if given.get("match") is F.expr:
        given["match"] = F.expr("order_time >= since")
    joined = sj.asof_join(streams.orders(), streams.rates(), F.expr("currency = code"), how, **given)
    found = [row for row in streams.rows(joined, "cents", "rate") if row[0] >= 0]

    with duckdb.connect() as db:
        db.execute("CREATE TABLE l (currency TEXT, order_time TIMESTAMP, cents INT)")
        db.execute("CREATE TABLE r (code TEXT, since TIMESTAMP, rate INT)")
        for table, rows in (("l", orders), ("r", rates)):
            for key, time, value, *_ in (row.values() for row in rows):
                db.execute(f"INSERT INTO {table} VALUES (?, ?, ?)", [key, time.replace(tzinfo=None), value])
        distance = "abs(epoch_ms(r.since) - epoch_ms(l.order_time)), r.since"
        closest = f"SELECT rate FROM r WHERE code = currency AND {candidates} ORDER BY {distance} LIMIT 1"
        answer = db.execute(f"SELECT cents, ({closest}) AS matched FROM l ORDER BY order_time").fetchall()
    expected = [row for row in answer if how == "left" or row[1] is not None]
    assert found == expected
    assert any(row[1] is not None for row in expected)


@pytest.mark.parametrize(
    ("join", "rows"),
    [
        ("JOIN {r} FOR SYSTEM_TIME AS OF o.order_time AS r ON o.currency = r.code", [(1, 2), (2, 3)]),
        ("LEFT JOIN {r} FOR SYSTEM_TIME AS OF o.order_time r ON o.currency = r.code", [(1, 2), (2, 3), (3, None)]),
        ("ASOF JOIN {r} r MATCH_CONDITION (o.order_time > r.since) ON o.currency = r.code", [(1, 2), (2, 2), (3, 3)]),
        (
            "LEFT ASOF JOIN {r} AS r MATCH_CONDITION (r.since < o.order_time) WITHIN 4 SECONDS ON o.currency = r.code",
            [(1, 2), (2, None), (3, None)],
        ),
        (
            "ASOF JOIN {r} AS r MATCH_CONDITION (o.order_time <= r.since) WITHIN 2s ON o.currency = r.code",
            [(1, 3), (2, 3), (3, 0)],
        ),
    ],
)
def test_in_sql(streams: Streams, join: str, rows: list[tuple[int, int | None]]) -> None:
    orders = [order("EUR", 5, 1), order("EUR", 7, 2), order("EUR", 12, 3)]
    streams.add(orders=orders, rates=[rate("EUR", 2, 2), rate("EUR", 7, 3), rate("EUR", 12, 0, "delete")])
    streams.add(orders=[order("X", 100)], rates=[rate("X", 100, 0)])
    rates = streams.rates().withColumnRenamed("op", "_change_type")
    if "ASOF" in join:
        rates = rates.drop("_change_type")
    query = streams.spark.sql(f"SELECT o.cents, r.rate FROM {{o}} AS o {join}", o=streams.orders(), r=rates)
    assert streams.rows(query, "cents", "rate") == rows


def test_an_aggregation_follows(streams: Streams) -> None:
    streams.add(orders=[order("EUR", 3), order("EUR", 4), order("EUR", 13)], rates=[rate("EUR", 2, 2)])
    streams.add(orders=[order("EUR", 60)], rates=[rate("X", 60, 0)])
    streams.add(orders=[order("EUR", 90)], rates=[rate("X", 90, 0)])
    versions = sj.versions(streams.rates(), key="code", op="op")
    joined = sj.temporal_join(streams.orders(), versions, F.expr("currency = code"))
    counted = joined.groupBy(F.window("order_time", "10 seconds").alias("w")).agg(F.sum("rate").alias("sum"))
    sums = [(start.replace(tzinfo=UTC), total) for start, total in sorted(streams.rows(counted, "w.start", "sum"))]
    assert sums[:2] == [(at(0), 4), (at(10), 2)]


def test_what_is_rejected(streams: Streams, spark: SparkSession) -> None:
    streams.add(orders=[order("EUR", 3)], rates=[rate("EUR", 2, 2)])
    orders, rates = streams.orders(), streams.rates()
    versions = sj.versions(rates, key="code", op="op")
    wrong = "STREAMJOIN_WRONG_ARGUMENT"
    rejected(wrong, lambda: sj.temporal_join(orders, rates, "code"), "sj.versions(changes")
    rejected(wrong, lambda: sj.versions(rates, key=[]), "the columns of the key")
    rejected(wrong, lambda: sj.asof_join(orders, rates, "x", match="a > b", direction="forward"), "either match=")
    rejected("STREAMJOIN_DURATION", lambda: sj.temporal_join(orders, versions, "code", history="1 month"), "history")
    rejected("STREAMJOIN_EVENT_TIME.NONE", lambda: sj.versions(rates.drop("since"), key="code"), "withWatermark")
    two = rates.withColumn("seen", F.col("since"))
    rejected("STREAMJOIN_EVENT_TIME.CHOICE", lambda: sj.versions(two, key="code"), 'time="since"')
    rejected("STREAMJOIN_EVENT_TIME.CHOICE", lambda: sj.temporal_join(two, versions, "code"), 'as_of="since"')
    rejected("STREAMJOIN_EVENT_TIME.CHOICE", lambda: sj.asof_join(two, rates, "code"), 'match="l.since >= r.time"')
    rejected(wrong, lambda: sj.asof_join(orders, rates, "code", match=7), "such as")  # type: ignore[arg-type]

    on = F.expr("currency = code")
    untied = F.expr("cents = rate")
    rejected("STREAMJOIN_TEMPORAL.KEY_NOT_TIED", lambda: sj.temporal_join(orders, versions, untied), "key")
    rejected("STREAMJOIN_TEMPORAL.JOIN_TYPE", lambda: sj.temporal_join(orders, versions, on, "full"), 'how="left"')
    forward = partial(sj.asof_join, orders, rates, on, direction="forward")
    rejected("STREAMJOIN_TEMPORAL.NO_TOLERANCE", forward, "tolerance")
    rejected("STREAMJOIN_TEMPORAL.TIMES", lambda: sj.asof_join(orders, rates, on, match="cents >= rate"), "l.t >= r.t")
    rejected("STREAMJOIN_COLUMN.UNKNOWN", lambda: sj.temporal_join(orders, versions, on, as_of="nothing"), "nothing")
