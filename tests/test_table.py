"""``sj.table``: a stream looks up an arrangement. The example is that of the Lenses document."""

from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

import pytest
from conftest import refused
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from shop import Shop, adds_up, rows_of

import streamjoin as sj

CUSTOMERS = "id INT, name STRING, op STRING"
ORDERS = "order_id INT, customer_id INT, item STRING"
ITEMS = (
    {"order_id": 1, "customer_id": 1, "item": "Computer"},
    {"order_id": 2, "customer_id": 1, "item": "Mouse"},
    {"order_id": 3, "customer_id": 3, "item": "Keyboard"},
)


@pytest.fixture
def customers(shop: Shop) -> Shop:
    shop.feed("customers", {"id": 1, "name": "John", "op": "insert"}, {"id": 2, "name": "Frank", "op": "insert"})
    shop.arrange("customers", CUSTOMERS, [["id"]], op="op")
    return shop


def joined(shop: Shop, name: str, join: Callable[[DataFrame], DataFrame]) -> list[tuple[object, ...]]:
    """Run a join of the orders that have come to its end; return what came out of this run."""
    found: list[tuple[object, ...]] = []
    shop.run(join(shop.stream("orders", ORDERS)), name, lambda batch, _: found.extend(rows_of(batch)))
    return sorted(found, key=str)


def test_the_types_of_the_document(customers: Shop) -> None:
    customers.feed("orders", *ITEMS)

    def names() -> DataFrame:
        return sj.table("customers").withColumnRenamed("id", "customer_id")

    matches = [("Computer", "John"), ("Mouse", "John")]
    unmatched = [*matches, ("Keyboard", None)]
    inner = joined(customers, "inner", lambda orders: sj.join(orders, names(), "customer_id").select("item", "name"))
    assert inner == sorted(matches)
    left = joined(customers, "left", lambda orders: orders.join(names(), "customer_id", "left").select("item", "name"))
    assert left == sorted(unmatched, key=str)
    right = joined(
        customers, "right", lambda orders: sj.join(names(), orders, "customer_id", "right").select("item", "name")
    )
    assert right == sorted(unmatched, key=str)


def test_versions(customers: Shop) -> None:
    """A batch sees the newest version; a restarted query goes on with what is new."""

    def named(orders: DataFrame) -> DataFrame:
        names = sj.table(sj.arrangement("customers"))
        return orders.join(names, F.expr("id = customer_id"), "left").select("order_id", "name")

    customers.feed("orders", ITEMS[0])
    assert joined(customers, "named", named) == [(1, "John")]
    customers.feed("customers", {"id": 1, "name": "Johnny", "op": "update"})
    customers.arrange("customers", CUSTOMERS, [["id"]], op="op")
    customers.feed("orders", ITEMS[1])
    assert joined(customers, "named", named) == [(2, "Johnny")]
    assert [reader.version for reader in sj.arrangement("customers").readers] == [0]

    def before(orders: DataFrame) -> DataFrame:
        names = sj.table("customers", as_of="previous", at_least=1)
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


def test_as_of_now(customers: Shop) -> None:
    customers.feed("orders", *ITEMS)

    def now(orders: DataFrame) -> DataFrame:
        names = sj.table("customers")
        return sj.temporal_join(orders, names, F.expr("id = customer_id"), as_of=sj.NOW).select("item", "name")

    assert joined(customers, "now", now) == [("Computer", "John"), ("Mouse", "John")]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("inner", {("John", "Computer"), ("John", "Mouse")}),
        ("left", {("John", "Computer"), ("John", "Mouse"), ("Frank", None)}),
        ("right", {("John", "Computer"), ("John", "Mouse"), (None, "Keyboard")}),
        ("full", {("John", "Computer"), ("John", "Mouse"), ("Frank", None), (None, "Keyboard")}),
    ],
)
def test_two_tables(customers: Shop, how: Literal["inner", "left", "right", "full"], expected: set[Any]) -> None:
    """The table of the matrix: what comes out are changes."""
    customers.feed("orders", *ITEMS)
    customers.arrange("orders", ORDERS, [["order_id"], ["customer_id"]])

    def changes() -> DataFrame:
        people = sj.table("customers").withColumnRenamed("id", "customer_id")
        return sj.join(people, sj.table("orders"), "customer_id", how).select("name", "item", "_diff")

    assert changes().isStreaming
    found: Counter[tuple[Any, ...]] = Counter()
    customers.run(changes(), how, lambda batch, _: adds_up(found, batch))
    assert found == Counter(expected)
    customers.feed("customers", {"id": 1, "name": "", "op": "delete"}, {"id": 3, "name": "Ann", "op": "insert"})
    customers.arrange("customers", CUSTOMERS, [["id"]], op="op")
    customers.run(changes(), how, lambda batch, _: adds_up(found, batch))
    kept = {(name, item) for name, item in expected if name == "Frank"}
    unmatched = {(None, "Computer"), (None, "Mouse")} if how in ("right", "full") else set()
    assert found == Counter(kept | unmatched | {("Ann", "Keyboard")})


def test_explain(customers: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    orders = customers.stream("orders", ORDERS)
    orders.join(sj.table("customers"), F.expr("id = customer_id AND name <> item")).explain()
    assert "refused" in capsys.readouterr().out
    orders.join(sj.table("customers"), F.expr("id = customer_id AND name <> 'x'"), "left").explain()
    shown = capsys.readouterr().out
    assert "LookUp customers by (id) where ((name IS NOT NULL) AND (NOT (name = 'x'))), keeps nothing" in shown


@pytest.mark.parametrize(
    ("how", "condition", "name", "advice"),
    [
        ("right", "id = customer_id", "STREAMJOIN_TABLE", "stream LEFT JOIN table"),
        ("full", "id = customer_id", "STREAMJOIN_TABLE", "stream LEFT JOIN table"),
        ("left_semi", "id = customer_id", "STREAMJOIN_TABLE", "stream LEFT JOIN table"),
        ("left_anti", "id = customer_id", "STREAMJOIN_TABLE", "WHERE table.key IS NULL"),
        ("inner", "id = customer_id OR name = item", "STREAMJOIN_TABLE", "(name = item)"),
        ("inner", "name = item", "STREAMJOIN_TABLE_KEY", "[id]"),
        ("inner", "id > customer_id", "STREAMJOIN_TABLE", "(id > customer_id)"),
    ],
)
def test_refused_at_start(customers: Shop, how: str, condition: str, name: str, advice: str) -> None:
    query = customers.stream("orders", ORDERS).join(sj.table("customers"), F.expr(condition), how)
    with pytest.raises(AnalysisException) as caught:
        query.writeStream.format("noop").option("checkpointLocation", customers.checkpoint("refused")).start()
    assert caught.value.getCondition() == name
    assert advice in str(caught.value)


def test_wrong_arguments(customers: Shop) -> None:
    condition = "STREAMJOIN_WRONG_ARGUMENT"
    refused(condition, "its name or its path", lambda: sj.table(""))
    refused(condition, "as_of", lambda: sj.table("customers", as_of="newest"))  # type: ignore[arg-type]
    refused(condition, "at_least", lambda: sj.table("customers", at_least=-1))
    with pytest.raises(AnalysisException) as caught:
        sj.table("nothing")
    assert caught.value.getCondition() == "STREAMJOIN_NO_ARRANGEMENT"
