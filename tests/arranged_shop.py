"""Three changing tables of a shop, and a folder of arrangements, for the tests of arrangements and delta joins."""

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from queries import finish

import streamjoin as sj

CUSTOMERS = "customer INT, segment STRING, op STRING"
ORDERS = "id INT, customer INT, day INT, op STRING"
LINES = "id INT, line INT, cents INT, op STRING"
JOINED = ["c.customer", "o.id", "l.line", "l.cents"]
CONDITION = "c.customer = o.customer AND o.id = l.id AND c.segment = 'BUILDING' AND o.day < 20 AND l.cents + o.day > 10"
Values = dict[str, Any]
Rows = Counter[tuple[Any, ...]]


class Shop:
    """A folder of arrangements, with streams of JSON files that feed them."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.files = 0

    def feed(self, name: str, *rows: Values) -> None:
        """Add a file to a stream: one batch of its query, and one version of its arrangement."""
        (self.folder / name).mkdir(exist_ok=True)
        self.files += 1
        file = self.folder / name / f"{self.files}.json"
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        os.utime(file, (self.files, self.files))  # Spark reads the oldest first

    def stream(self, name: str, schema: str) -> DataFrame:
        """Return the stream of a folder, one file per batch."""
        (self.folder / name).mkdir(exist_ok=True)
        reader = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return reader.json(str(self.folder / name))

    def arrange(self, name: str, schema: str, keys: list[list[str]], **options: str) -> None:
        """Read all files of a stream into the arrangement of the same name."""
        self.finish(sj.arrange(self.stream(name, schema), name, keys, **options), name)

    def checkpoint(self, name: str) -> str:
        return str(self.folder / "checkpoints" / name)

    def run(self, df: DataFrame, name: str, write: Callable[[DataFrame, int], None]) -> None:
        """Run a query that hands over its batches, from its checkpoint to the end of its input."""
        self.finish(df.writeStream.foreachBatch(write), name)

    def finish(self, writer: DataStreamWriter, name: str) -> StreamingQuery:
        """Run a query from its checkpoint to the end of its input."""
        return finish(writer, self.checkpoint(name))

    def add_up(self, df: DataFrame, name: str, rows: Rows) -> None:
        """Run a query and apply the changes of its batches."""
        self.run(df, name, lambda batch, _: adds_up(rows, batch))


def rows_of(df: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in df.collect())


def adds_up(changes: Rows, batch: DataFrame) -> None:
    """Apply the changes of a batch."""
    for *row, diff in batch.collect():
        changes[tuple(row)] += diff
        if changes[tuple(row)] == 0:
            del changes[tuple(row)]


ROUNDS: list[dict[str, list[Values]]] = [
    {
        "customers": [
            {"customer": 1, "segment": "BUILDING", "op": "insert"},
            {"customer": 2, "segment": "MACHINERY", "op": "insert"},
        ],
        "orders": [
            {"id": 10, "customer": 1, "day": 5, "op": "insert"},
            {"id": 11, "customer": 2, "day": 9, "op": "insert"},
            {"id": 12, "customer": 1, "day": 30, "op": "insert"},
        ],
        "lines": [
            {"id": 10, "line": 1, "cents": 100, "op": "insert"},
            {"id": 10, "line": 2, "cents": 3, "op": "insert"},
            {"id": 11, "line": 1, "cents": 50, "op": "insert"},
        ],
    },
    # All three at once: a customer and an order change; a line is deleted, one added, one changed.
    {
        "customers": [{"customer": 2, "segment": "BUILDING", "op": "update"}],
        "orders": [{"id": 12, "customer": 1, "day": 3, "op": "update"}],
        "lines": [
            {"id": 10, "line": 1, "op": "delete"},
            {"id": 12, "line": 1, "cents": 70, "op": "insert"},
            {"id": 11, "line": 1, "cents": 51, "op": "update"},
        ],
    },
    {"orders": [{"id": 11, "op": "delete"}], "lines": [{"id": 10, "line": 2, "cents": 300, "op": "update"}]},
    # A line may come before its order.
    {"lines": [{"id": 13, "line": 1, "cents": 9, "op": "insert"}], "customers": []},
    {"orders": [{"id": 13, "customer": 2, "day": 2, "op": "insert"}], "customers": [{"customer": 1, "op": "delete"}]},
]


TABLES = {
    "customers": (CUSTOMERS, [["customer"]]),
    "orders": (ORDERS, [["id"], ["customer"]]),
    "lines": (LINES, [["id", "line"], ["id"]]),
}


def play(shop: Shop, changes: dict[str, list[Values]]) -> None:
    """Feed one round of changes, each table's as one version."""
    for name, rows in changes.items():
        shop.feed(name, *rows)
        schema, keys = TABLES[name]
        shop.arrange(name, schema, keys, op="op")


def joined(**options: Any) -> DataFrame:
    return sj.delta_join({"c": "customers", "o": "orders", "l": "lines"}, CONDITION, JOINED, **options)


def answer(how: str = "", on: str = "") -> list[tuple[Any, ...]]:
    """Return DuckDB's answer over the current tables: to the join, or to an outer join of customers and orders."""
    inner = f"SELECT {', '.join(JOINED)} FROM c, o, l WHERE {CONDITION}"
    with duckdb.connect() as db:
        for name in ("customers", "orders") if how else ("customers", "orders", "lines"):
            db.register(name[0], sj.arrangement(name).toDF().toPandas())
        outer = f"SELECT c.customer, o.id FROM c {how} JOIN o ON {on}"
        return db.execute(outer if how else inner).fetchall()
