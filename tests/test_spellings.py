"""All functions accept the same spellings: join types, columns, keys, `on`, durations, arrangements, inputs."""

import copy
import inspect
import itertools
import pickle
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from arranged_shop import ORDERS, Shop, customer, order, rows_of
from conftest import rejected
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from queries import settings

import streamjoin as sj

FACTS = "id INT, t TIMESTAMP, b BOOLEAN, op STRING, seq LONG"
OTHERS = "id INT, u TIMESTAMP, op STRING, seq LONG"


class Streams:
    """Two streams with a watermark each, and a raw one."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        for name in "lr":
            (folder / name).mkdir()
        self.spark = spark
        self.raw = spark.readStream.schema(FACTS).json(str(folder / "l"))
        self.left = self.raw.withWatermark("t", "10 seconds")
        self.right = spark.readStream.schema(OTHERS).json(str(folder / "r")).withWatermark("u", "10 seconds")
        self.versions = sj.versions(self.right, key="id")

    def joins(self, on: Any, how: str = "inner") -> dict[str, DataFrame]:
        """Return each of the joins of two streams."""
        left, right = self.left.alias("l"), self.right.alias("r")
        return {
            "join": sj.join(left, right, on, how),
            "join within": sj.join(left, right, on, how, within="1 hour"),
            "window_join": sj.window_join(left, right, on, how, following="1 hour"),
            "temporal_join": sj.temporal_join(left, sj.versions(right, key="id"), on, how),
            "asof_join": sj.asof_join(left, right, on, how),
        }


@pytest.fixture
def streams(spark: SparkSession, tmp_path: Path) -> Streams:
    return Streams(spark, tmp_path)


@pytest.fixture(scope="module")
def begun(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    shop = Shop(spark, tmp_path_factory.mktemp("tables"))
    with shop.open():
        shop.play(
            {
                "customers": [customer(1, "A", "i"), customer(2, "B", "i")],
                "orders": [order(1, 1, 5, "i"), order(2, 9, 5, "i")],
            }
        )
    return shop


@pytest.fixture
def tables(begun: Shop) -> Iterator[Shop]:
    """All tests share the arrangements; no test depends on rows that another one adds."""
    with begun.open():
        yield begun


def plan(df: DataFrame) -> str:
    """Return the analyzed plan without ids, which differ each time."""
    text = df._jdf.queryExecution().analyzed().toString()
    return re.sub(r"#\d+L?|@[0-9a-f]+|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|path=[^,\]]*", "", text)


def all_same(*dfs: DataFrame) -> None:
    first, *others = map(plan, dfs)
    for other in others:
        assert other == first


# how ----------------------------------------------------------------------------------------------


def test_the_type_of_a_join_in_any_spelling(streams: Streams, tables: Shop) -> None:
    facts = tables.stream("facts", "customer INT")

    def joins(how: str) -> dict[str, DataFrame]:
        delta = sj.delta_join({"c": "customers", "o": "orders"}, "c.customer = o.customer", how=how)
        now = sj.temporal_join(facts, sj.table("customers"), "customer", how, as_of=sj.NOW)
        return {**streams.joins("id", how), "delta_join": delta, "as of now": now}

    expected = joins("left")
    for how in ("LEFT OUTER", "Left_Outer", "leftouter", "left  outer"):
        for name, joined in joins(how).items():
            assert plan(joined) == plan(expected[name]), f"{name}: {how}"
            assert "Inner" not in plan(joined), name


@pytest.mark.parametrize(
    ("how", "name"),
    [
        ("INNER", "Inner"),
        ("Right Outer", "RightOuter"),
        ("Full_Outer", "FullOuter"),
        ("OUTER", "FullOuter"),
        ("LEFT SEMI", "LeftSemi"),
        ("Anti", "LeftAnti"),
    ],
)
def test_all_types_of_a_join(streams: Streams, how: str, name: str) -> None:
    assert f"Join {name}" in plan(sj.join(streams.left, streams.right, "id", how))
    within = sj.join(streams.left, streams.right, "id", how, within="1 hour")
    assert f"Join {name}" in plan(within)
    assert within.columns == streams.left.join(streams.right, "id", name.lower()).columns


@pytest.mark.parametrize("how", ["cross", "left inner", "", None, 7])
def test_what_is_no_type_of_a_join(streams: Streams, how: Any) -> None:
    rejected("STREAMJOIN_JOIN_TYPE", lambda: streams.joins("id", how), "such as left_outer or LEFT OUTER")


def test_what_is_no_type_of_a_delta_join(spark: SparkSession) -> None:
    call = partial(sj.delta_join, {"c": "customers", "o": "orders"}, "true", how="LEFT SEMI", spark=spark)
    rejected("STREAMJOIN_JOIN_TYPE", call, "one of: inner, left, right, full,")


# within and other durations -----------------------------------------------------------------------


def test_pairs_and_durations(streams: Streams) -> None:
    hour = timedelta(hours=1)
    pairs: tuple[Any, ...] = (("0 seconds", "1 hour"), ["0 seconds", "1 hour"], ["0s", hour], (timedelta(), hour))
    all_same(*(sj.join(streams.left, streams.right, "id", within=pair) for pair in pairs))
    one = partial(sj.join, streams.left, streams.right, "id", within=["1 hour"])
    rejected("STREAMJOIN_WITHIN", one, '("0 seconds", "1 hour")')
    lengths: tuple[Any, ...] = ("1 hour", "60m", hour)
    all_same(*(sj.window_join(streams.left, streams.right, "id", preceding=length) for length in lengths))
    all_same(*(sj.asof_join(streams.left, streams.right, "id", tolerance=length) for length in lengths))
    all_same(*(sj.temporal_join(streams.left, streams.versions, "id", history=length) for length in lengths))
    all_same(*(sj.impose_order(streams.raw, "t", length) for length in lengths))
    all_same(*(sj.with_bounds(streams.raw, "t", is_bound="b", lag=length) for length in lengths))
    all_same(*(sj.idle_after(streams.left, length) for length in lengths))


# Columns ------------------------------------------------------------------------------------------


def test_columns_as_names_or_columns(streams: Streams) -> None:
    raw, left, right = streams.raw, streams.left, streams.right
    for t in (F.col("t"), raw.t, raw["t"]):
        all_same(sj.impose_order(raw, "t", "1s", sort=True), sj.impose_order(raw, t, "1s", sort=True))
    all_same(
        sj.with_bounds(raw, "t", is_bound="b", lag="1s", per="id"),
        sj.with_bounds(raw, F.col("t"), is_bound=raw.b, lag="1s", per=raw["id"]),
    )
    named = sj.versions(right, key=["id"], time="u", op="op", order="seq")
    assert named == sj.versions(right, key=[F.col("id")], time=right.u, op=right.op, order=right["seq"])
    assert named.key == sj.versions(right, key=right.id).key == ["id"]
    nested = right.select(F.struct("id").alias("row"), "u")
    assert sj.versions(nested, key=F.col("row.id")).key == sj.versions(nested, key=nested.row.id).key == ["row.id"]
    all_same(*(sj.temporal_join(left, named, "id", as_of=each) for each in ("t", F.col("t"), left.t, raw.t, None)))
    aliased = left.alias("o")
    all_same(*(sj.temporal_join(aliased, named, "id", as_of=each) for each in ("t", F.col("o.t"))))


def test_a_name_with_a_dot(streams: Streams) -> None:
    named = streams.raw.withColumnsRenamed({"t": "the.time", "b": "a `b`"})
    for time, bound in (("`the.time`", "`a ``b```"), (F.col("`the.time`"), named["`a ``b```"])):
        assert sj.with_bounds(named, time, is_bound=bound, lag="1s").columns == ["id", "the.time", "op", "seq"]
    left, right = streams.left.withColumnRenamed("t", "l.t"), streams.right.withColumnRenamed("u", "r.t")
    columns = sj.asof_join(left, right, "id").columns
    assert columns[1] == "l.t"
    for match in ("l.`l.t` >= r.`r.t`", "L.`l.t` >= R.`r.t`"):
        assert sj.asof_join(left, right, "id", match=match).columns == columns
    history = sj.versions(right, key="id")
    assert history.time == "`r.t`"
    all_same(sj.temporal_join(left, history, "id"), sj.temporal_join(left, history, "id", as_of=left["`l.t`"]))
    # What an error says to write has the quotes, too.
    mark = partial(sj.join, named, right, "id", within="1 hour")
    rejected("STREAMJOIN_EVENT_TIME.NONE", mark, 'left.withWatermark("`the.time`", "10 seconds")')
    text = partial(sj.impose_order, named.withColumn("a.text", F.lit("2026")), "`a.text`", "1s")
    rejected("STREAMJOIN_COLUMN.NOT_A_TIMESTAMP", text, 'df.withColumn("a.text", F.to_timestamp("`a.text`"))')


def test_names_that_differ_in_case(streams: Streams) -> None:
    with settings(streams.spark, {"spark.sql.caseSensitive": "true"}):
        twice = streams.left.withColumn("ID", F.col("id") + 1)
        joined = sj.join(twice, streams.right, "id", within="1 hour")
        assert joined.columns == ["id", "t", "b", "op", "seq", "ID", "u", "op", "seq"]
    rejected("STREAMJOIN_JOIN_KEYS.UNKNOWN", lambda: sj.join(twice, streams.right, "id", within="1 hour"))


COMPUTED: list[tuple[str, str, Callable[[Streams], Any]]] = [
    ("time", "it is computed, but time must be a column", lambda s: sj.impose_order(s.raw, F.now(), "1s")),
    ("time", 'write time="time"', lambda s: sj.impose_order(s.raw, F.to_timestamp("op"), "1s")),
    ("time", "it is computed", lambda s: sj.impose_order(s.raw, s.raw.t.alias("x"), "1s")),
    ("time", "it is computed", lambda s: sj.impose_order(s.raw, F.col("*"), "1s")),
    ("time", "it is computed", lambda s: sj.impose_order(s.raw, F.explode(F.array("t")), "1s")),
    ("time", "Its columns are id, t, b, op, seq", lambda s: sj.impose_order(s.raw, F.col("x"), "1s")),
    ("time", "the DataFrame does not have it", lambda s: sj.impose_order(s.raw, s.right.u, "1s")),
    ("is_bound", "is_bound must be a column", lambda s: sj.with_bounds(s.raw, "t", is_bound=F.col("id") < 0, lag="1s")),
    ("per", "per must be a column", lambda s: sj.with_bounds(s.raw, "t", is_bound="b", lag="1s", per=F.col("id") + 1)),
    ("key", "key must be a column", lambda s: sj.versions(s.right, key=F.upper("op"))),
    ("key", "key must be a column", lambda s: sj.versions(s.right, key=["id", F.upper("op")])),
    ("op", "op must be a column", lambda s: sj.versions(s.right, key="id", op=F.lit("insert"))),
    ("order", "order must be a column", lambda s: sj.versions(s.right, key="id", order=-F.col("seq"))),
    ("as_of", "as_of must be a column", lambda s: sj.temporal_join(s.left, s.versions, "id", as_of=F.now())),
    ("keys", "keys must be a column", lambda s: sj.arrange(s.left, "/a", [[F.col("id")], [F.upper("op")]])),
    ("diff", "diff must be a column", lambda s: sj.arrange(s.left, "/a", "id", diff=F.lit(1))),
]


@pytest.mark.parametrize(("argument", "words", "call"), COMPUTED, ids=[f"{c[0]}: {c[1]}" for c in COMPUTED])
def test_a_column_that_is_computed(streams: Streams, argument: str, words: str, call: Callable[[Streams], Any]) -> None:
    elsewhere = words.startswith(("the DataFrame", "Its columns"))
    rejected(f"STREAMJOIN_COLUMN.{'OTHER_DATAFRAME' if elsewhere else 'COMPUTED'}", lambda: call(streams), words)


@pytest.mark.parametrize("wrong", [7, "", ["t"], None])
def test_what_is_no_column(streams: Streams, wrong: Any) -> None:
    said = 'by its name or as F.col("name")'
    rejected("STREAMJOIN_WRONG_ARGUMENT", lambda: sj.impose_order(streams.raw, wrong, "1s"), said)
    rejected("STREAMJOIN_WRONG_ARGUMENT", lambda: sj.with_bounds(streams.raw, "t", is_bound=wrong, lag="1s"), said)


# Keys ---------------------------------------------------------------------------------------------


def test_keys(shop: Shop) -> None:
    shop.feed("orders", order(1, 7, 1))
    stream = shop.stream("orders", ORDERS)
    spellings: list[tuple[Any, list[list[str]]]] = [
        ("id", [["id"]]),
        (["id"], [["id"]]),
        (("customer", "day"), [["customer", "day"]]),
        ([["id"], ("customer", "day")], [["id"], ["customer", "day"]]),
        (stream.id, [["id"]]),
        ([F.col("customer"), stream["day"]], [["customer", "day"]]),
        ([["id"], [F.col("customer"), "DAY"]], [["id"], ["customer", "day"]]),
    ]
    for number, (keys, expected) in enumerate(spellings):
        shop.finish(sj.arrange(stream, f"orders{number}", keys, op=F.col("op")), f"orders{number}")
        assert sj.arrangement(f"orders{number}").keys == expected


def test_keys_of_debeziums_envelope(streams: Streams, shop: Shop) -> None:
    row = "STRUCT<id: INT, name: STRING>"
    shop.feed("names", {"op": "c", "after": {"id": 1, "name": "Ada"}, "at": "2026-01-01T00:00:00Z"})
    envelope = shop.stream("names", f"before {row}, after {row}, op STRING, at TIMESTAMP")
    shop.finish(sj.arrange(envelope, "names", F.col("id"), op=envelope.op, time=envelope.at), "names")
    assert sj.arrangement("names").keys == [["id"]]
    marked = envelope.withWatermark("at", "0 seconds")
    versions = sj.versions(marked, key=F.col("id"), time=marked["at"])
    assert (versions.key, versions.changes.columns) == (["id"], ["id", "name", "at", "op"])


def test_what_is_no_key(streams: Streams) -> None:
    wrong: Any
    for wrong in (["id", ["op"]], [[["id"]]], 7, None, [["id"], 7], [[F.col("id")], "op"]):
        call = partial(sj.arrange, streams.left, "/a", wrong)
        rejected("STREAMJOIN_WRONG_ARGUMENT", call, 'keys=[["order_id"], ["customer_id", "day"]]')
    for wrong in ([["id"], ["op"]], [["id"]], [], 7, None):
        said = 'key="id" or key=["country", "city"]'
        rejected("STREAMJOIN_WRONG_ARGUMENT", partial(sj.versions, streams.right, key=wrong), said)


# on -----------------------------------------------------------------------------------------------


def test_what_the_inputs_are_joined_on(streams: Streams) -> None:
    on: Any
    names = streams.joins("id")
    for on in (["id"], ("id",)):
        for name, joined in streams.joins(on).items():
            assert plan(joined) == plan(names[name]), name
    condition = F.expr("l.id = r.id")
    conditions = streams.joins(condition)
    for on in ([condition], (condition,), F.col("l.id") == F.col("r.id")):
        for name, joined in streams.joins(on).items():
            assert plan(joined) == plan(conditions[name]), name
    two = streams.joins([condition, F.expr("l.op = r.op")])
    for name, joined in streams.joins(F.expr("l.id = r.id AND l.op = r.op")).items():
        assert plan(joined) == plan(two[name]), name


@pytest.mark.parametrize(
    ("on", "cause", "words"),
    [
        ("l.id = r.id", "UNKNOWN", "write on=F.expr('l.id = r.id')"),
        (["id", "l.op = r.op"], "UNKNOWN", "write on=F.expr('l.op = r.op')"),
        ("nothing", "UNKNOWN", "does not have exactly one column 'nothing'"),
        (("id", True), "MIXED", "names and conditions do not mix"),
        ([], "NEITHER", "Write a name, a list of names, a condition"),
        (True, "NEITHER", "on=F.lit(True)"),
    ],
)
def test_what_the_inputs_cannot_be_joined_on(streams: Streams, on: Any, cause: str, words: str) -> None:
    left, right = streams.left.alias("l"), streams.right.alias("r")
    if "do not mix" in words:
        on = ["id", F.expr("l.op = r.op")]
    for call in (
        lambda: sj.join(left, right, on),
        lambda: sj.join(left, right, on, within="1 hour"),
        lambda: sj.window_join(left, right, on, following="1 hour"),
        lambda: sj.temporal_join(left, sj.versions(right, key="id"), on),
        lambda: sj.asof_join(left, right, on),
    ):
        rejected(f"STREAMJOIN_JOIN_KEYS.{cause}", call, words)


def test_what_arrangements_are_joined_on(tables: Shop) -> None:
    inputs = {"c": "customers", "o": "orders"}
    same = "c.customer = o.customer"
    every: list[Any] = [same, [same], F.expr(same), (F.expr(same),), F.col("c.customer") == F.col("o.customer")]
    all_same(*(sj.delta_join(inputs, on, ["c.segment", "o.id"]) for on in [*every, "customer", ["CUSTOMER"]]))
    more = "c.segment = 'A' OR o.day > 5"
    every = [[same, more], f"{same} AND ({more})", [F.expr(same), F.expr(more)], F.expr(same) & F.expr(more)]
    all_same(*(sj.delta_join(inputs, on, ["c.segment", "o.id"]) for on in every))
    three = sj.delta_join({"a": "orders", "b": "orders", "c": "customers"}, "customer", ["a.id", "b.id AS other"])
    assert three.columns == ["id", "other", "_diff"]


@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
def test_a_name_that_arrangements_are_joined_on_is_there_once(tables: Shop, how: str) -> None:
    joined = sj.delta_join({"c": "customers", "o": "orders"}, "customer", how=how)
    batch = sj.table("customers").join(sj.table("orders"), "customer", how)
    assert joined.columns == [*batch.columns, "_diff"] == ["customer", "segment", "id", "day", "_diff"]
    assert tables.rows(joined, how) == sorted(((*row, 1) for row in batch.collect()), key=str)


def test_what_arrangements_cannot_be_joined_on(tables: Shop) -> None:
    inputs = {"c": "customers", "o": "orders"}
    mixed: Any = ["customer", F.expr("o.day > 5")]
    rejected("STREAMJOIN_JOIN_KEYS.UNKNOWN", lambda: sj.delta_join(inputs, "day"), "the c input does not have")
    texts = ["customer", "o.day > 5"]
    rejected("STREAMJOIN_JOIN_KEYS.MIXED", lambda: sj.delta_join(inputs, texts), '"a.id = b.id"')
    rejected("STREAMJOIN_JOIN_KEYS.MIXED", lambda: sj.delta_join(inputs, mixed), "do not mix")
    rejected("STREAMJOIN_JOIN_KEYS.NEITHER", lambda: sj.delta_join(inputs, []), "Write a name")
    rejected("UNRESOLVED_COLUMN.WITH_SUGGESTION", lambda: sj.delta_join(inputs, F.expr("c.customer = o.client")))


def test_the_columns_of_a_delta_join(tables: Shop) -> None:
    inputs, on = {"c": "customers", "o": "orders"}, "c.customer = o.customer"
    spellings: tuple[Any, ...] = (
        ["c.segment", "o.id + 1 AS next"],
        (F.col("c.segment"), (F.col("o.id") + 1).alias("next")),
        ["c.segment", F.expr("o.id + 1 AS next")],
    )
    all_same(*(sj.delta_join(inputs, on, select) for select in spellings))
    assert sj.delta_join(inputs, on, F.col("o.*")).columns == ["id", "customer", "day", "_diff"]
    assert sj.delta_join(inputs, on, F.upper("c.segment")).columns == ["upper(segment)", "_diff"]


# Arrangements and sessions ------------------------------------------------------------------------


def test_an_arrangement_or_its_name(tables: Shop) -> None:
    orders, customers = sj.arrangement("orders"), sj.arrangement("customers")
    again = sj.arrangement(orders)
    assert (again.path, again.keys) == (orders.path, orders.keys)
    assert rows_of(sj.table(orders)) == rows_of(sj.table("orders")) == rows_of(sj.table(orders.path))
    on = "c.customer = o.customer"
    every: tuple[Any, ...] = ("orders", orders, orders.path)
    all_same(*(sj.delta_join({"c": customers, "o": each}, on) for each in every))
    tables.feed("orders", order(3, 2, 6, "i"))
    writer = sj.arrange(tables.stream("orders", ORDERS), orders, [["id"], ["customer"]], op="op")
    tables.finish(writer, "orders")
    assert orders.rows == 3


def test_what_is_no_arrangement(streams: Streams) -> None:
    calls: list[Callable[[Any], object]] = [
        sj.arrangement,
        sj.table,
        lambda wrong: sj.arrange(streams.left, wrong, "id"),
        lambda wrong: sj.delta_join({"a": wrong, "b": "orders"}, "true"),
    ]
    for wrong, call in itertools.product((None, "", 7, streams.left), calls):
        rejected("STREAMJOIN_WRONG_ARGUMENT", partial(call, wrong), "an arrangement, its name or its path")


def test_what_is_no_session(tables: Shop) -> None:
    context: Any = tables.spark.sparkContext
    calls: list[Callable[[], object]] = [
        lambda: sj.arrangement("orders", spark=context),
        lambda: sj.table("orders", spark=context),
        lambda: sj.delta_join({"a": "orders", "b": "orders"}, "id", spark=context),
    ]
    for call in calls:
        rejected("STREAMJOIN_WRONG_ARGUMENT", call, "a SparkSession as spark")
    wrong: Any = "false"
    rejected("STREAMJOIN_WRONG_ARGUMENT", lambda: sj.arrangement("orders").drop(force=wrong), "True or False as force")


def test_the_session_is_given_by_its_name() -> None:
    names = vars(sj)["__all__"]
    for name in names:
        function = getattr(sj, name)
        parameters = inspect.signature(function).parameters if inspect.isfunction(function) else {}
        if "spark" in parameters and name != "check":
            assert parameters["spark"].kind is inspect.Parameter.KEYWORD_ONLY, name
    assert {"arrangement", "table", "delta_join"} <= set(names)


# Inputs -------------------------------------------------------------------------------------------


def test_pandas_is_rejected_with_what_to_write(streams: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYARROW_IGNORE_TIMEZONE", "1")
    frames: list[tuple[Any, str]] = [
        (pd.DataFrame({"id": [1]}), "not a pandas DataFrame: write spark.createDataFrame(df)."),
        (streams.spark.range(1).pandas_api(), "not a pandas-on-Spark DataFrame: write df.to_spark()."),
    ]
    left, right = streams.left, streams.right
    calls: list[Callable[[Any], object]] = [
        lambda df: sj.join(left, df, "id"),
        lambda df: sj.join(df, right, "id"),
        lambda df: sj.window_join(left, df, "id", following="1s"),
        lambda df: sj.asof_join(df, right, "id"),
        lambda df: sj.temporal_join(df, streams.versions, "id"),
        lambda df: sj.temporal_join(left, df, "id"),
        lambda df: sj.temporal_join(left, df, "id", as_of=sj.NOW),
        lambda df: sj.versions(df, key="id"),
        lambda df: sj.arrange(df, "/a", "id"),
        lambda df: sj.impose_order(df, "t", "1s"),
        lambda df: sj.with_bounds(df, "t", is_bound="b"),
        lambda df: sj.idle_after(df, "1s"),
        sj.bounds,
    ]
    for (df, words), call in itertools.product(frames, calls):
        rejected("STREAMJOIN_WRONG_ARGUMENT", partial(call, df), words)


# A time and a version -----------------------------------------------------------------------------


def test_now_is_an_object_of_its_own(streams: Streams, tables: Shop) -> None:
    assert repr(sj.NOW) == "sj.NOW"
    assert type(sj.NOW).__name__ == "Now"
    assert pickle.loads(pickle.dumps(sj.NOW)) is copy.deepcopy(sj.NOW) is sj.NOW
    # Text is the name of a column.
    with pytest.raises(AnalysisException, match="there is no such column"):
        sj.temporal_join(streams.left, streams.versions, "id", as_of="NOW()")
    facts = tables.stream("facts", "customer INT")
    call = partial(sj.temporal_join, facts, streams.versions, "customer", as_of=sj.NOW)
    rejected("STREAMJOIN_WRONG_ARGUMENT", call, "sj.table(name) as its second argument")


def test_the_version_of_a_table(tables: Shop) -> None:
    tables.play({"customers": [customer(1, "C", "u")]})
    tables.feed("facts", {"customer": 1})
    for version, segment in (("current", "C"), ("previous", "A")):
        joined = tables.stream("facts", "customer INT").join(sj.table("customers", version=version), "customer")  # type: ignore[arg-type]
        assert tables.rows(joined, version) == [(1, segment)]
    wrong: Any
    for wrong in ("newest", 0, None, sj.NOW):
        call = partial(sj.table, "customers", version=wrong)
        rejected("STREAMJOIN_WRONG_ARGUMENT", call, 'version="current" or version="previous"')
