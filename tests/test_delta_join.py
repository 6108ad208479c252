"""Delta joins as a Python user sees them: from arrangements to a table that is kept up to date."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from arranged_shop import CONDITION, JOINED, ORDERS, ROUNDS, Shop, add_up, answer, customer, joined, order, rows_of
from conftest import LONG, rejected
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import streamjoin as sj

# Inserts, then updates and deletes in several tables at once.
SOME_ROUNDS = ROUNDS if LONG else ROUNDS[:3]


def test_an_aggregation_of_a_join_is_an_arrangement(shop: Shop) -> None:
    for changes in SOME_ROUNDS:
        shop.play(changes)
        sums = joined().groupBy("id").agg(F.sum(F.expr("cents * _diff")).alias("cents"), F.sum("_diff").alias("lines"))
        sums = sums.withColumn("op", F.expr("IF(lines = 0, 'delete', 'update')"))
        shop.finish(sj.arrange(sums, "sums", [["id"]], op="op").outputMode("update"), "sums")
        expected: dict[int, tuple[int, int]] = {}
        for _, number, _, cents in answer():
            before = expected.get(number, (0, 0))
            expected[number] = (before[0] + cents, before[1] + 1)
        assert rows_of(sj.arrangement("sums").toDF()) == sorted((key, *value) for key, value in expected.items())


def test_a_join_of_three_is_merged_into_a_table(shop: Shop) -> None:
    """As in docs/delta-joins.md: a batch that runs twice writes the same table."""
    shop.play(ROUNDS[0])
    columns = ["customer", "id", "line", "cents"]

    def table(batch_id: int) -> str:
        return str(shop.folder / "result" / str(batch_id))

    def merge(batch: DataFrame, batch_id: int) -> None:
        written.append(batch_id)
        changes = batch
        if batch_id > 0:
            before = batch.sparkSession.read.parquet(table(batch_id - 1)).withColumn("_diff", F.lit(1))
            changes = before.unionByName(batch)
        after = changes.groupBy(columns).agg(F.sum("_diff").alias("_diff")).where("_diff <> 0")
        assert after.where("_diff <> 1").count() == 0
        after.drop("_diff").write.mode("overwrite").parquet(table(batch_id))

    written: list[int] = []
    for number, changes in enumerate(ROUNDS):
        if number > 0:
            shop.play(changes)
        shop.run(joined(), "result", merge)
        assert rows_of(shop.spark.read.parquet(table(written[-1]))) == sorted(answer()), f"round {number}"
    assert list(answer()) == [(2, 13, 1, 9)]


def test_the_result_is_an_arrangement_again(shop: Shop) -> None:
    for changes in SOME_ROUNDS:
        shop.play(changes)
        shop.finish(sj.arrange(joined(), "result", [["id", "line"], ["customer"]], diff="_diff"), "result")
        found = sj.arrangement("result")
        assert found.schema.names == ["customer", "id", "line", "cents"]
        assert rows_of(found.toDF()) == sorted(answer())
        # A join with the result of another join.
        again = sj.delta_join({"r": "result", "c": "customers"}, "r.customer = c.customer", ["r.id", "c.segment"])
        assert shop.total(again, "again") == Counter((row[1], "BUILDING") for row in answer())


def test_the_join_in_sql(shop: Shop) -> None:
    for changes in SOME_ROUNDS[:2]:
        shop.play(changes)
        df = shop.spark.sql(f"""
            SELECT {", ".join(JOINED)} FROM STREAM customers AS c, STREAM orders AS o, STREAM lines AS l
            WHERE {CONDITION}""")
        assert df.isStreaming and df.columns == ["customer", "id", "line", "cents", "_diff"]
        assert shop.total(df, "sql") == answer()
    one = shop.spark.sql("SELECT * FROM STREAM orders")
    assert one.isStreaming and one.columns == ["id", "customer", "day", "_version", "_diff"]


@pytest.mark.parametrize("how", ["left", "right", "full"] if LONG else ["full"])
def test_an_outer_join(shop: Shop, how: str) -> None:
    on = "c.customer = o.customer AND o.day < 20"
    padded = 0
    for changes in ROUNDS:
        shop.play({name: changes[name] for name in ("customers", "orders") if name in changes})
        df = sj.delta_join({"c": "customers", "o": "orders"}, on, ["c.customer", "o.id"], how=how)
        expected = answer(how, on)
        assert shop.total(df, how) == expected
        padded += any(None in row for row in expected)
    assert padded > 0


@pytest.fixture(scope="module")
def two(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    shop = Shop(spark, tmp_path_factory.mktemp("two"))
    with shop.open():
        shop.play({"customers": [customer(1, "A", "i"), customer(2, "B", "i")]})
        shop.feed("orders", order(1, 1, 5, "i"), order(2, 9, 5, "i"))
        shop.play({"orders": [order(2, 1, 6, "u"), order(3, 1, 7, "i")]})
    return shop


@pytest.fixture
def shop_of_two(two: Shop) -> Iterator[Shop]:
    """All tests share the arrangements, which none of them changes."""
    with two.open():
        yield two


@pytest.mark.parametrize(
    ("select", "rows"),
    [
        ("c.segment, o.id FROM STREAM customers c JOIN STREAM orders AS o ON c.customer = o.customer", "A1 A2 A3"),
        ("c.segment, o.id FROM STREAM customers c, STREAM orders o WHERE c.customer = o.customer AND day > 5", "A2 A3"),
        (
            "c.segment, o.id FROM STREAM customers c LEFT JOIN STREAM orders o ON c.customer = o.customer AND day > 6",
            "A3 B",
        ),
        (
            "a.id, b.id i FROM STREAM orders a JOIN STREAM orders b ON a.customer = b.customer AND a.id < b.id",
            "12 13 23",
        ),
        (
            "segment, i FROM (SELECT c.segment, o.id + 10 AS i, o.day FROM STREAM customers c JOIN STREAM orders o "
            "ON c.customer = o.customer) WHERE day > 6 AND _diff > 0",
            "A13",
        ),
    ],
)
def test_arrangements_are_joined_by_their_names(shop_of_two: Shop, select: str, rows: str) -> None:
    found = shop_of_two.rows(shop_of_two.spark.sql(f"SELECT {select}"), rows.replace(" ", "-"))
    assert sorted("".join(str(value or "") for value in row[:2]) for row in found) == rows.split()


def test_a_star_has_the_columns_of_the_rows(shop_of_two: Shop) -> None:
    query = "SELECT * FROM STREAM customers JOIN STREAM orders ON customers.customer = orders.customer"
    assert shop_of_two.spark.sql(query).columns == ["customer", "segment", "id", "customer", "day", "_diff"]
    columns = shop_of_two.spark.sql("SELECT * FROM STREAM customers").columns
    assert columns == ["customer", "segment", "_version", "_diff"]


def test_a_view_of_the_name_goes_first(shop_of_two: Shop) -> None:
    shop_of_two.stream("orders", ORDERS).createOrReplaceTempView("orders")
    assert shop_of_two.spark.sql("SELECT * FROM STREAM orders").columns == ["id", "customer", "day", "op"]
    shop_of_two.spark.catalog.dropTempView("orders")


@pytest.mark.parametrize(
    ("query", "condition", "text"),
    [
        ("SELECT id FROM STREAM customers NATURAL JOIN STREAM orders", "STREAMJOIN_DELTA.NATURAL", "USING"),
        (
            "SELECT count(*) FROM STREAM customers c JOIN STREAM orders o ON c.customer = o.customer",
            "STREAMJOIN_DELTA.MORE_THAN_JOINS",
            "outer query",
        ),
        (
            "SELECT c.segment FROM STREAM customers c LEFT ANTI JOIN STREAM orders o ON c.customer = o.customer",
            "STREAMJOIN_DELTA.MORE_THAN_JOINS",
            "an outer join of two",
        ),
        (
            "SELECT o.id FROM STREAM customers c JOIN STREAM orders o ON c.customer < o.customer",
            "STREAMJOIN_DELTA_CONDITION",
            "Equalities with earlier inputs",
        ),
        (
            "SELECT o.id FROM STREAM customers c JOIN STREAM orders o ON c.segment = CAST(o.id AS STRING)",
            "STREAMJOIN_DELTA_INDEX",
            "[segment]",
        ),
    ],
)
def test_what_sql_cannot_join(shop_of_two: Shop, query: str, condition: str, text: str) -> None:
    rejected(condition, lambda: shop_of_two.spark.sql(query), text)


def test_two_queries_and_a_restart(shop: Shop) -> None:
    for number, changes in enumerate(SOME_ROUNDS):
        shop.play(changes)
        # The second query begins later, with the rows that are there.
        for name in ("first", "second") if number > 1 else ("first",):
            assert shop.total(joined(), name) == answer(), f"{name}, round {number}"
    assert len(sj.arrangement("orders").readers) == 2


def test_a_batch_of_versions(shop: Shop) -> None:
    for changes in SOME_ROUNDS:
        shop.play(changes)
    for option, most in (("max_versions_per_trigger", 1), ("max_rows_per_trigger", 2)):
        assert shop.total(joined(**{option: most}), option) == answer(), option


def test_a_live_query(shop: Shop) -> None:
    shop.play(ROUNDS[0])
    total: Counter[tuple[Any, ...]] = Counter()
    writer = joined().writeStream.foreachBatch(lambda batch, _: add_up(total, batch))
    query = writer.start(checkpointLocation=shop.checkpoint("live"))
    for changes in SOME_ROUNDS[1:]:
        shop.play(changes)
        query.processAllAvailable()
        assert total == answer()
    metrics = [source.metrics or {} for progress in query.recentProgress for source in progress.sources]
    assert metrics[-1]["versionsBehind"] == "0"
    looked_up = [each for each in metrics if "loadedRows" in each]
    assert looked_up and int(looked_up[-1]["executorIndexBytes"]) > 0
    assert {"version", "rows", "loadTimeMs"} <= looked_up[-1].keys()


def test_the_time_of_a_result_is_the_latest(shop: Shop) -> None:
    for name, at in (("a", 5), ("b", 9)):
        shop.feed(name, {"k": 1, "at": at, "op": "insert"})
        shop.arrange(name, "k INT, at INT, op STRING", [["k"]], op="op", time="at")
    df = sj.delta_join({"a": "a", "b": "b"}, "a.k = b.k", "a.k")
    assert df.columns == ["k", "_time", "_diff"]
    assert shop.rows(df, "timed") == [(1, 9, 1)]


def test_the_columns_of_a_result(shop: Shop) -> None:
    shop.play(ROUNDS[0])

    def columns(select: str | list[str] | None) -> list[str]:
        on = "c.customer = o.customer"
        return sj.delta_join({"c": sj.arrangement("customers"), "o": "orders"}, on, select).columns

    everything = ["customer", "segment", "id", "customer", "day", "_diff"]
    assert columns(None) == columns("*") == everything
    assert columns("o.*") == ["id", "customer", "day", "_diff"]
    assert columns(["o.id + 1 AS next", "upper(c.segment)"]) == ["next", "upper(segment)", "_diff"]
    for own in ("o._diff", "o._version + 1 AS version"):
        rejected("STREAMJOIN_DELTA.INPUT_OPTIONS", partial(columns, own), "_diff")
    on = "c.customer = o.customer AND c._version = o._version"
    rejected("STREAMJOIN_DELTA.INPUT_OPTIONS", lambda: sj.delta_join({"c": "customers", "o": "orders"}, on))
    df = sj.delta_join({"c": "customers", "o": "orders"}, "c.customer = o.customer", ["o.id + 1 AS next", "'x' AS x"])
    assert shop.total(df, "values") == Counter([(11, "x"), (12, "x"), (13, "x")])


def test_the_plan_of_a_batch(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.play(ROUNDS[0])
    query = joined().writeStream.format("noop").start(checkpointLocation=shop.checkpoint("plan"))
    query.processAllAvailable()
    shop.play({"orders": [order(10, 1, 6, "update")]})
    query.processAllAvailable()
    capsys.readouterr()
    joined().explain()
    assert capsys.readouterr().out.count("LookUp") == 6
    query.explain()
    steps = [line.lstrip("+-: *") for line in capsys.readouterr().out.splitlines()]
    assert [step for step in steps if step.startswith(("LookUp", "Changes"))] == [
        "LookUp l by (id) where ((l.cents + o.day) > 10), keeps nothing",
        "LookUp c by (customer) where (c.segment = 'BUILDING'), keeps nothing",
        "Changes of o where (o.day < 20)",
    ]


def test_values_of_rows_without_a_match(shop: Shop) -> None:
    """A column without nulls has nulls in unmatched rows, and expressions over it see them."""
    shop.feed("orders", {"id": 1}, {"id": 2})
    shop.arrange("orders", "id INT", [["id"]])
    shop.feed("lines", {"id": 1, "cents": 5})
    totals = shop.stream("lines", "id INT, cents INT").groupBy("id").count().withColumn("op", F.lit("update"))
    shop.finish(sj.arrange(totals, "totals", [["id"]], op="op").outputMode("update"), "totals")
    select = ["o.id", "coalesce(t.count, 0) AS count", "t.count IS NULL AS none"]
    df = sj.delta_join({"o": "orders", "t": "totals"}, "o.id = t.id", select, how="left")
    assert shop.total(df, "pairs") == Counter([(1, 1, False), (2, 0, True)])


def test_texts_that_are_equal_by_their_collation(shop: Shop) -> None:
    schema = "id INT, name STRING COLLATE UTF8_LCASE, op STRING"
    shop.feed("visits", {"id": 1, "page": "/"}, {"id": 2, "page": "/"})
    shop.arrange("visits", "id INT, page STRING", [["id"]])
    for rows in (
        [{"id": 1, "name": "ada", "op": "insert"}, {"id": 2, "name": "ADA", "op": "insert"}],
        [{"id": 1, "name": "Ada", "op": "update"}],
        [{"id": 2, "op": "delete"}],
    ):
        shop.feed("people", *rows)
        shop.arrange("people", schema, [["id"]], op="op")
        df = sj.delta_join({"p": "people", "v": "visits"}, "p.id = v.id", ["p.name", "v.page"])
        names = [name for (name,) in rows_of(sj.arrangement("people").toDF().select("name"))]
        assert shop.total(df, "pairs") == Counter((name, "/") for name in names)
    assert df.schema["name"].dataType.simpleString() == "string collate UTF8_LCASE"


def test_two_zeros_are_one_key(shop: Shop) -> None:
    shop.feed("left", {"id": 1, "k": 0.0})
    shop.arrange("left", "id INT, k DOUBLE", [["id"], ["k"]])
    for rows in ([], [{"k": 0.0, "op": "insert"}], [{"k": -0.0, "op": "delete"}]):
        shop.feed("right", *(row | {"id": number} for number, row in enumerate(rows * 2)))
        signs = F.expr("IF(id = 1, -k, k)")
        stream = shop.stream("right", "id INT, k DOUBLE, op STRING").withColumn("k", signs)
        shop.finish(sj.arrange(stream, "right", [["id"], ["k"]], op="op"), "right")
        df = sj.delta_join({"l": "left", "r": "right"}, "l.k = r.k", ["l.id", "r.id AS other"], how="left")
        expected = [(1, 0), (1, 1)] if rows and rows[0]["op"] == "insert" else [(1, None)]
        assert shop.total(df, "pairs") == Counter(expected)


def test_an_arrangement_with_itself(shop: Shop) -> None:
    for number, boss in ((3, 2), (2, 1), (1, None)):
        shop.feed("people", {"id": number, "boss": boss})
        shop.arrange("people", "id INT, boss INT", [["id"], ["boss"]])
        df = sj.delta_join({"e": "people", "m": "people"}, "e.boss = m.id", ["e.id", "m.id AS boss"])
        total = shop.total(df, "pairs")
    assert total == Counter([(2, 1), (3, 2)])


def test_what_cannot_be_joined(shop: Shop) -> None:
    shop.play(ROUNDS[0])

    def join(on: str, select: Any = "o.id", **inputs: str) -> Any:
        return lambda: sj.delta_join(inputs or {"c": "customers", "o": "orders"}, on, select)

    wrong: list[tuple[Any, ...]] = [
        (["customers", "orders"], "true"),
        ({"c": 1, "o": "orders"}, "c.customer = o.customer"),
        ({}, "c.customer = o.customer"),
        ({"c": "customers", "o": "orders"}, "c.customer = o.customer", [7]),
        ({"c": "customers", "o": "orders"}, "c.customer = o.customer", 7),
    ]
    for arguments in wrong:
        rejected("STREAMJOIN_WRONG_ARGUMENT", partial(sj.delta_join, *arguments))
    rejected("STREAMJOIN_WRONG_ARGUMENT", lambda: joined(max_versions_per_trigger=0), "max_versions_per_trigger")
    for condition in ("o.id = 1", "id"):
        rejected("STREAMJOIN_DELTA.ONE_INPUT", join(condition, o="orders"), "fewer than two inputs")
    rejected("STREAMJOIN_DELTA_CONDITION", join("c.customer < o.customer"))
    rejected("STREAMJOIN_JOIN_TYPE", lambda: joined(how="semi"))
    rejected("STREAMJOIN_DELTA.OUTER_OF_SEVERAL", lambda: joined(how="left"), "more than two inputs")
    rejected("STREAMJOIN_DELTA_INDEX", join("o.day = l.cents", o="orders", l="lines"), "[cents]")
    rejected("STREAMJOIN_DELTA.NOT_PLAIN", join("c.customer = o.customer AND rand() < 0.5"))
    shop.feed("times", {"at": "2026-01-01 00:00:05.5", "second": 1767225605})
    shop.arrange("times", "at TIMESTAMP, second LONG", [["at"], ["second"]])
    whole = join("CAST(t.at AS LONG) = s.second", "s.second", t="times", s="times")
    rejected("STREAMJOIN_DELTA_CONDITION", whole)
    rejected("STREAMJOIN_DELTA.OPERATOR", join("c.customer = o.customer", "count(*)"))
    rejected("UNRESOLVED_COLUMN.WITH_SUGGESTION", join("c.customer = o.client"))
    rejected("PARSE_SYNTAX_ERROR", join("c.customer = = o.customer"))


def test_a_checkpoint_stays_with_its_join(shop: Shop) -> None:
    shop.play(ROUNDS[0])
    assert shop.total(joined(), "joined") == answer()
    shop.play({"orders": [order(11, 2, op="delete")]})
    inputs = {"c": "customers", "o": "orders", "l": "lines"}
    for on, select in (
        (CONDITION.replace("BUILDING", "MACHINERY"), JOINED),
        (CONDITION, [*JOINED, "o.day"]),
        (CONDITION, [*JOINED[:-1], "l.cents AS price"]),
    ):
        other = sj.delta_join(inputs, on, select)
        rejected("STREAMJOIN_CHECKPOINT_CHANGED", partial(shop.total, other, "joined"), "new checkpoint location")
    two = {"c": "customers", "o": "orders"}
    both = ["c.customer", "o.id"]
    plain = sj.delta_join(two, "c.customer = o.customer", both)
    shop.rows(plain, "two")
    left = sj.delta_join(two, "c.customer = o.customer", both, how="left")
    rejected("STREAMJOIN_CHECKPOINT_CHANGED", lambda: shop.rows(left, "two"), "join_type")
    # The same join with other names, and with its conditions in another order.
    renamed = {"who": "customers", "what": "orders", "part": "lines"}
    names = {"c": "who", "o": "what", "l": "part"}

    def said(text: str) -> str:
        return re.sub(r"\b([col])(?=\.)", lambda name: names[name[1]], text)

    on = " AND ".join(reversed(said(CONDITION).split(" AND ")))
    again = sj.delta_join(renamed, on, [said(column) for column in JOINED])
    assert shop.total(again, "joined") == answer()
