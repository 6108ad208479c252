"""``sj.table``: a stream looks up an arrangement. The example is that of the Lenses document."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from arranged_shop import Shop, add_up, rows_of
from conftest import LONG, ROOT, rejected
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from queries import Values

import streamjoin as sj
from streamjoin import JoinType

CUSTOMERS = "id INT, name STRING, op STRING"
ORDERS = "order_id INT, customer_id INT, item STRING"
ITEMS = (
    {"order_id": 1, "customer_id": 1, "item": "Computer"},
    {"order_id": 2, "customer_id": 1, "item": "Mouse"},
    {"order_id": 3, "customer_id": 3, "item": "Keyboard"},
)


def change(shop: Shop, *changes: Values) -> None:
    """Change the customers: one more version."""
    shop.feed("customers", *changes)
    shop.arrange("customers", CUSTOMERS, [["id"]], op="op")


@pytest.fixture
def customers(shop: Shop) -> Shop:
    change(shop, {"id": 1, "name": "John", "op": "insert"}, {"id": 2, "name": "Frank", "op": "insert"})
    return shop


def joined(shop: Shop, name: str, join: Callable[[DataFrame], DataFrame]) -> list[tuple[object, ...]]:
    """Run a join of the orders to the end of its input; return the rows that this run emits."""
    return shop.rows(join(shop.stream("orders", ORDERS)), name)


# For each join, which rows of RESULT it emits.
TYPES = {
    "stream `JOIN` table": (True, True, False, False),
    "stream `LEFT JOIN` table": (True, True, True, False),
    "table `RIGHT JOIN` stream": (True, True, True, False),
    "table `JOIN` table": (True, True, False, False),
    "table `LEFT JOIN` table": (True, True, True, False),
    "table `RIGHT JOIN` table": (True, True, False, True),
    "table `FULL JOIN` table": (True, True, True, True),
}
RESULT = (("John", "Computer"), ("John", "Mouse"), (None, "Keyboard"), ("Frank", None))
HOW: dict[str, JoinType] = {"JOIN": "inner", "LEFT JOIN": "left", "RIGHT JOIN": "right", "FULL JOIN": "full"}


def names() -> DataFrame:
    return sj.table("customers").withColumnRenamed("id", "customer_id")


def test_the_types_of_the_document(customers: Shop) -> None:
    """All join types, on the input of the document; the page shows what is emitted."""
    customers.feed("orders", *ITEMS)
    customers.arrange("orders", ORDERS, [["order_id"], ["customer_id"]])
    found: dict[str, Counter[tuple[Any, ...]]] = {}

    def run(words: str) -> None:
        left, how, right = words.replace("`", "").partition(" ")[0], HOW[words.split("`")[1]], words.split()[-1]
        rows = found.setdefault(words, Counter())
        if left == right:
            both = sj.join(sj.table("orders"), names(), "customer_id", how).select("name", "item", "_diff")
            assert both.isStreaming
            customers.run(both, words.replace("`", ""), lambda batch, _: add_up(rows, batch))
        else:
            orders = customers.stream("orders", ORDERS)
            # By the declared key of the table.
            sides = (names(), orders) if right == "stream" else (orders, names())
            join = sj.join(*sides, how=how).select("name", "item")
            customers.run(join, words.replace("`", ""), lambda batch, _: rows.update(map(tuple, batch.collect())))

    for words, rows in TYPES.items():
        run(words)
        assert found[words] == Counter(row for row, is_there in zip(RESULT, rows, strict=True) if is_there), words

    change(customers, {"id": 1, "name": "", "op": "delete"}, {"id": 3, "name": "Ann", "op": "insert"})
    for words in found:
        before = Counter(found[words])
        run(words)
        if "stream" in words:
            assert found[words] == before, "what changes in a table changes no row that was emitted"
            continue
        _, _, orders_alone, customers_alone = TYPES[words]
        alone: set[tuple[Any, ...]] = {(None, "Computer"), (None, "Mouse")} if orders_alone else set()
        alone |= {("Frank", None)} if customers_alone else set()
        assert found[words] == Counter(alone | {("Ann", "Keyboard")})

    lines = [" | ".join(["| name | item", *TYPES]), "|---" * (2 + len(TYPES))]
    for number, (name, item) in enumerate(RESULT):
        marks = ["yes" if rows[number] else " " for rows in TYPES.values()]
        lines.append(" | ".join([f"| {name or 'NULL'}", item or "NULL", *marks]))
    table = "\n".join(f"{line} |".replace("--- |", "---|") for line in lines)
    assert table in (ROOT / "docs" / "tables.md").read_text(encoding="utf-8"), table


def test_a_row_of_the_table_that_comes_late(customers: Shop) -> None:
    """The document's purchase by a customer whose row arrives later."""

    def named(orders: DataFrame) -> DataFrame:
        return sj.join(orders, names(), how="left").select("item", "name")

    customers.feed("orders", ITEMS[0], ITEMS[2])
    assert joined(customers, "named", named) == [("Computer", "John"), ("Keyboard", None)]
    change(customers, {"id": 3, "name": "Ann", "op": "insert"})
    assert joined(customers, "named", named) == [], "nothing is emitted again"


def test_the_conditions_of_the_document(customers: Shop) -> None:
    customers.feed("orders", *ITEMS)
    john = [("Computer", "John"), ("Mouse", "John")]
    for number, (condition, rows) in enumerate(
        [
            ("id = customer_id + 1 - 1 AND length(name) > 3", john),
            ("id = customer_id AND substr(item, 1, 1) = 'M'", john[1:]),
            ("substr(name, 3) = concat('h', 'n') AND id = customer_id AND (length(name) > 10 OR id > 1)", []),
        ]
    ):

        def join(orders: DataFrame, condition: str = condition) -> DataFrame:
            return sj.join(orders, sj.table("customers"), F.expr(condition)).select("item", "name")

        assert joined(customers, f"condition-{number}", join) == rows, condition


def test_filters_of_two_tables(customers: Shop, spark: SparkSession) -> None:
    """A row that a filter removes does not exist: it is not a row without a match."""
    for visit, visitor in ((1, 1), (2, 2), (3, 3), (4, 3)):
        customers.feed("visits", {"visit": visit, "visitor": visitor})
    customers.arrange("visits", "visit INT, visitor INT", [["visit"], ["visitor"]])

    def check() -> None:
        for how in HOW.values() if LONG else ("left", "full"):
            visits, people = sj.table("visits").where("visit % 2 = 1"), sj.table("customers").where("name <> 'Frank'")
            on = F.expr("visitor = id")
            batch = visits.join(people, on, how).collect()
            assert customers.total(sj.join(visits, people, on, how), how) == Counter(map(tuple, batch)), how

    check()
    customers.feed("customers", {"id": 1, "name": "Frank", "op": "update"}, {"id": 2, "name": "Ann", "op": "update"})
    change(customers, {"id": 3, "name": "Eve", "op": "insert"}, {"id": 4, "name": "Frank", "op": "insert"})
    check()


def test_declared_keys(customers: Shop, spark: SparkSession) -> None:
    orders = customers.stream("orders", ORDERS)
    customers.feed("visits", {"id": 1, "page": "/"})
    customers.arrange("visits", "id LONG, page STRING", [["id"]])
    both = sj.join(sj.table("customers").where("name <> ''"), sj.table("visits"), how="full")
    assert both.columns == ["id", "name", "page", "_diff"]
    assert customers.total(both, "both") == Counter([(1, "John", "/"), (2, "Frank", None)])

    people, plain = sj.table("customers"), spark.range(3)
    customers.arrange("orders", ORDERS, [["order_id"]])
    for condition, words, left, right in (
        ("STREAMJOIN_JOIN_KEYS.KEY_NOT_IN_INPUT", "does not have exactly one column id", orders, people),
        ("STREAMJOIN_JOIN_KEYS.NO_DECLARED_KEY", "a stream has no declared key", orders, orders),
        ("STREAMJOIN_JOIN_KEYS.NO_DECLARED_KEY", "a stream has no declared key", orders, people.select("name")),
        ("STREAMJOIN_JOIN_KEYS.UNDECLARED_SIDE", "the left input is neither", plain, people),
        ("STREAMJOIN_JOIN_KEYS.KEYS_DIFFER", "['order_id'] and ['id']", sj.table("orders"), people),
    ):
        rejected(condition, partial(sj.join, left, right), words)


def test_a_table_that_has_caught_up(customers: Shop) -> None:
    def named(orders: DataFrame) -> DataFrame:
        query = sj.join(orders, sj.table("customers", at_least="caught up").withColumnRenamed("id", "customer_id"))
        return query.select("item", "name")

    customers.feed("orders", ITEMS[0])
    # Its maintaining query has ended, and has recorded that there was nothing more to read.
    assert joined(customers, "named", named) == [("Computer", "John")]


def test_the_progress(customers: Shop) -> None:
    customers.feed("orders", *ITEMS)
    writer = sj.join(customers.stream("orders", ORDERS), names(), how="left").writeStream.format("noop")
    query = writer.start(checkpointLocation=customers.checkpoint("progress"))
    query.processAllAvailable()
    (progress,) = [each for each in query.recentProgress if each["numInputRows"]]
    figures = progress["observedMetrics"]["lookUp.customers"]
    expected = {"version": 0, "lookedUpRows": 3, "matchedRows": 2, "paddedRows": 1}
    assert {name: figures[name] for name in expected} == expected
    documented = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert all(name in documented for name in figures.asDict())


def test_versions(customers: Shop) -> None:
    """A batch sees the newest version; a restarted query continues with the new rows."""

    def named(orders: DataFrame) -> DataFrame:
        names = sj.table(sj.arrangement("customers"))
        return orders.join(names, F.expr("id = customer_id"), "left").select("order_id", "name")

    customers.feed("orders", ITEMS[0])
    assert joined(customers, "named", named) == [(1, "John")]
    change(customers, {"id": 1, "name": "Johnny", "op": "update"})
    customers.feed("orders", ITEMS[1])
    assert joined(customers, "named", named) == [(2, "Johnny")]
    assert [reader.version for reader in sj.arrangement("customers").readers] == [0]

    def before(orders: DataFrame) -> DataFrame:
        names = sj.table("customers", version="previous", at_least=1)
        return orders.join(names, F.expr("id = customer_id")).select("order_id", "name")

    assert joined(customers, "before", before) == [(1, "John"), (2, "John")]
    assert rows_of(sj.table("customers")) == [(1, "Johnny"), (2, "Frank")]


def test_in_sql(customers: Shop, spark: SparkSession) -> None:
    customers.feed("orders", *ITEMS)

    def in_sql(orders: DataFrame) -> DataFrame:
        return spark.sql(
            "SELECT o.item, c.name FROM {orders} AS o LEFT JOIN customers FOR SYSTEM_TIME AS OF NOW() AS c "
            "ON c.id = o.customer_id",
            orders=orders,
        )

    assert joined(customers, "sql", in_sql) == [("Computer", "John"), ("Keyboard", None), ("Mouse", "John")]


@pytest.mark.parametrize("spelling", ["sql", "name"])
def test_rematch(customers: Shop, spark: SparkSession, spelling: str) -> None:
    customers.feed("orders", *ITEMS)

    def named(orders: DataFrame) -> DataFrame:
        timed = orders.withColumn("at", F.timestamp_seconds("order_id")).withWatermark("at", "0 seconds")
        if spelling == "name":
            table = sj.table("customers", rematch="1 hour")
            return timed.withColumnRenamed("customer_id", "id").join(table, "id", "left").select("item", "name")
        return spark.sql(
            "SELECT o.item, c.name FROM {orders} AS o LEFT JOIN customers WITH (rematch = '1 hour') AS c "
            "ON c.id = o.customer_id",
            orders=timed,
        )

    assert joined(customers, "named", named) == [("Computer", "John"), ("Keyboard", None), ("Mouse", "John")]
    change(customers, {"id": 3, "name": "Ann", "op": "insert"})
    customers.feed("orders", {"order_id": 4, "customer_id": 2, "item": "Pen"})
    assert joined(customers, "named", named) == [("Keyboard", "Ann"), ("Pen", "Frank")]


def test_as_of_now(customers: Shop) -> None:
    customers.feed("orders", *ITEMS)

    def now(orders: DataFrame) -> DataFrame:
        names = sj.table("customers")
        return sj.temporal_join(orders, names, F.expr("id = customer_id"), as_of=sj.NOW).select("item", "name")

    assert joined(customers, "now", now) == [("Computer", "John"), ("Mouse", "John")]


def test_explain(customers: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    orders = customers.stream("orders", ORDERS)
    orders.join(sj.table("customers"), F.expr("id > customer_id AND name <> item")).explain()
    assert "rejected" in capsys.readouterr().out
    orders.join(sj.table("customers"), F.expr("id = customer_id AND name <> 'x'"), "left").explain()
    shown = capsys.readouterr().out
    assert "LookUp customers by (id) where ((name IS NOT NULL) AND (NOT (name = 'x'))), keeps nothing" in shown


@pytest.mark.parametrize(
    ("how", "condition", "name", "advice"),
    [
        ("right", "id = customer_id", "STREAMJOIN_TABLE.ALL_ROWS", "stream LEFT JOIN table"),
        ("full", "id = customer_id", "STREAMJOIN_TABLE.JOIN_TYPE", "stream LEFT JOIN table"),
        ("left_semi", "id = customer_id", "STREAMJOIN_TABLE.JOIN_TYPE", "stream LEFT JOIN table"),
        ("left_anti", "id = customer_id", "STREAMJOIN_TABLE.JOIN_TYPE", "WHERE table.key IS NULL"),
        ("inner", "id = customer_id OR name = item", "STREAMJOIN_TABLE.NO_EQUALITY", "(name = item)"),
        ("inner", "name = item", "STREAMJOIN_TABLE_KEY", "[id]"),
        ("inner", "id > customer_id", "STREAMJOIN_TABLE.NO_EQUALITY", "(id > customer_id)"),
        ("inner", "concat(name, item) = 'John'", "STREAMJOIN_TABLE.NO_EQUALITY", "concat"),
        ("inner", "id - customer_id = 0", "STREAMJOIN_TABLE.NO_EQUALITY", "equalities"),
        ("inner", "id = 1 OR id = customer_id", "STREAMJOIN_TABLE.NO_EQUALITY", "joined by AND"),
        ("inner", "id - 1 = customer_id - 1", "STREAMJOIN_TABLE.NO_EQUALITY", "all columns of a key"),
    ],
)
def test_rejected_at_start(customers: Shop, how: str, condition: str, name: str, advice: str) -> None:
    query = customers.stream("orders", ORDERS).join(sj.table("customers"), F.expr(condition), how)
    writer = query.writeStream.format("noop")
    rejected(name, lambda: customers.finish(writer, "rejected"), advice)


def test_wrong_arguments(customers: Shop, spark: SparkSession) -> None:
    condition = "STREAMJOIN_WRONG_ARGUMENT"
    rejected(condition, lambda: sj.table(""), "its name or its path")
    rejected(condition, lambda: sj.table("customers", version="newest"), 'version="current" or')  # type: ignore[arg-type]
    rejected(condition, lambda: sj.table("customers", at_least=-1), "at_least")
    rejected(condition, lambda: sj.table("customers", at_least="loaded"), "caught up")  # type: ignore[arg-type]
    for name, value in (("asOf", "newest"), ("atLeast", "loaded")):
        reader = spark.read.format("streamjoin").option("streamjoin.table", True).option(name, value)
        rejected("STREAMJOIN_OPTION", partial(reader.load, "customers"))
    options: tuple[dict[str, Any], ...] = ({"version": "previous"}, {"at_least": 1}, {"rematch": "1 hour"})
    for of_a_stream in (sj.table("customers", **each) for each in options):
        for sides in ((of_a_stream, sj.table("customers")), (sj.table("customers"), of_a_stream)):
            rejected("STREAMJOIN_DELTA.TABLE_OPTIONS", partial(sj.join, *sides, "id", "left"), "Omit them")
    both = sj.table("customers"), sj.table("customers")
    rejected("STREAMJOIN_DELTA.JOIN_TYPE", lambda: sj.join(*both, "id", "left_semi"), "a filter in an outer query")
    rejected("STREAMJOIN_NO_ARRANGEMENT", lambda: sj.table("nothing"))
