"""Three changing tables of a shop, and a folder of arrangements, for the tests of arrangements and delta joins."""

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import duckdb
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from queries import Inputs, Values, finish, settings

import streamjoin as sj

CUSTOMERS = "customer INT, segment STRING, op STRING"
ORDERS = "id INT, customer INT, day INT, op STRING"
LINES = "id INT, line INT, cents INT, op STRING"
JOINED = ["c.customer", "o.id", "l.line", "l.cents"]
CONDITION = "c.customer = o.customer AND o.id = l.id AND c.segment = 'BUILDING' AND o.day < 20 AND l.cents + o.day > 10"
Rows = Counter[tuple[Any, ...]]


def customer(number: int, segment: str | None = None, op: str = "insert") -> Values:
    return {"customer": number, "segment": segment, "op": op}


def order(number: int, customer: int | None = None, day: int | None = None, op: str = "insert") -> Values:
    return {"id": number, "customer": customer, "day": day, "op": op}


def line(order: int, number: int, cents: int | None = None, op: str = "insert") -> Values:
    return {"id": order, "line": number, "cents": cents, "op": op}


TABLES = {
    "customers": (CUSTOMERS, [["customer"]]),
    "orders": (ORDERS, [["id"], ["customer"]]),
    "lines": (LINES, [["id", "line"], ["id"]]),
}
ROUNDS: list[dict[str, list[Values]]] = [
    {
        "customers": [customer(1, "BUILDING"), customer(2, "MACHINERY")],
        "orders": [order(10, 1, 5), order(11, 2, 9), order(12, 1, 30)],
        "lines": [line(10, 1, 100), line(10, 2, 3), line(11, 1, 50)],
    },
    # All three at once: a customer and an order change; a line is deleted, one added, one changed.
    {
        "customers": [customer(2, "BUILDING", "update")],
        "orders": [order(12, 1, 3, "update")],
        "lines": [line(10, 1, op="delete"), line(12, 1, 70), line(11, 1, 51, "update")],
    },
    {"orders": [order(11, op="delete")], "lines": [line(10, 2, 300, "update")]},
    # A line may come before its order.
    {"lines": [line(13, 1, 9)], "customers": []},
    {"orders": [order(13, 2, 2)], "customers": [customer(1, op="delete")]},
]


class Shop(Inputs):
    """A folder of arrangements, and the streams that feed them: a file is a version of its arrangement."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        super().__init__(spark, folder)
        self._totals: dict[str, Rows] = {}

    def open(self) -> AbstractContextManager[None]:
        """Let names mean the arrangements of this folder for a while."""
        return settings(self.spark, {"spark.streamjoin.arrangements": str(self.folder / "arrangements")})

    def arrange(self, name: str, schema: str, keys: list[list[str]], **options: str) -> None:
        """Read all files of a stream into the arrangement of the same name."""
        self.finish(sj.arrange(self.stream(name, schema), name, keys, **options), name)

    def play(self, changes: dict[str, list[Values]]) -> None:
        """Feed one round of changes, each table's as one version."""
        for name, rows in changes.items():
            self.feed(name, *rows)
            self.arrange(name, *TABLES[name], op="op")

    def run(self, df: DataFrame, name: str, write: Callable[[DataFrame, int], None]) -> None:
        """Run a query that hands over its batches, from its checkpoint to the end of its input."""
        self.finish(df.writeStream.foreachBatch(write), name)

    def finish(self, writer: DataStreamWriter, name: str) -> StreamingQuery:
        """Run a query from its checkpoint to the end of its input."""
        return finish(writer, self.checkpoint(name))

    def rows(self, df: DataFrame, name: str) -> list[tuple[Any, ...]]:
        """Run a query from its checkpoint to the end of its input; return the rows of this run."""
        found: list[tuple[Any, ...]] = []
        self.run(df, name, lambda batch, _: found.extend(rows_of(batch)))
        return sorted(found, key=str)

    def total(self, df: DataFrame, name: str) -> Rows:
        """Run a query of changes; return the rows that all its changes add up to, those of earlier runs included."""
        rows = self._totals.setdefault(name, Counter())
        self.run(df, name, lambda batch, _: add_up(rows, batch))
        return rows


def rows_of(df: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in df.collect())


def add_up(changes: Rows, batch: DataFrame) -> None:
    """Apply the changes of a batch."""
    for *row, diff in batch.collect():
        changes[tuple(row)] += diff
        if changes[tuple(row)] == 0:
            del changes[tuple(row)]


def joined(**options: Any) -> DataFrame:
    return sj.delta_join({"c": "customers", "o": "orders", "l": "lines"}, CONDITION, JOINED, **options)


def answer(how: str = "", on: str = "") -> Rows:
    """Return DuckDB's answer over the current tables: to the join, or to an outer join of customers and orders."""
    inner = f"SELECT {', '.join(JOINED)} FROM c, o, l WHERE {CONDITION}"
    with duckdb.connect() as db:
        for name in ("customers", "orders") if how else ("customers", "orders", "lines"):
            db.register(name[0], sj.arrangement(name).toDF().toPandas())
        outer = f"SELECT c.customer, o.id FROM c {how} JOIN o ON {on}"
        return Counter(db.execute(outer if how else inner).fetchall())
