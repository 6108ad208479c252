"""Arrangements and delta joins as a Python user has them: from files of changes to a table that is kept up to date."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

import streamjoin as sj

CUSTOMERS = "customer INT, segment STRING, op STRING"
ORDERS = "id INT, customer INT, day INT, op STRING"
LINES = "id INT, line INT, cents INT, op STRING"
JOINED = ["c.customer", "o.id", "l.line", "l.cents"]
CONDITION = "c.customer = o.customer AND o.id = l.id AND c.segment = 'BUILDING' AND o.day < 20 AND l.cents + o.day > 10"

Values = dict[str, Any]


class Shop:
    """A folder of arrangements, with streams of JSON files that feed them."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.files = 0

    def feed(self, name: str, *rows: Values) -> None:
        """Add a file to a stream: a batch of its query, and a version of its arrangement."""
        (self.folder / name).mkdir(exist_ok=True)
        self.files += 1
        file = self.folder / name / f"{self.files}.json"
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        os.utime(file, (self.files, self.files))  # Spark reads the oldest first

    def stream(self, name: str, schema: str) -> DataFrame:
        """Return the stream of a folder, one file a batch."""
        (self.folder / name).mkdir(exist_ok=True)
        reader = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return reader.json(str(self.folder / name))

    def arrange(self, name: str, schema: str, keys: list[list[str]], **options: str) -> None:
        """Read all files of a stream into the arrangement of its name."""
        writer = sj.arrange(self.stream(name, schema), name, keys, **options).trigger(availableNow=True)
        writer.start(checkpointLocation=self.checkpoint(name)).awaitTermination()

    def checkpoint(self, name: str) -> str:
        return str(self.folder / "checkpoints" / name)

    def run(self, df: DataFrame, name: str, write: Callable[[DataFrame, int], None]) -> None:
        """Run a query to the end of what is there, from its checkpoint."""
        writer = df.writeStream.foreachBatch(write).outputMode("append").trigger(availableNow=True)
        writer.option("checkpointLocation", self.checkpoint(name)).start().awaitTermination()


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Iterator[Shop]:
    spark.conf.set("spark.streamjoin.arrangements", str(tmp_path / "arrangements"))
    yield Shop(spark, tmp_path)
    for query in spark.streams.active:
        query.stop()
    spark.conf.unset("spark.streamjoin.arrangements")


def rows_of(df: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in df.collect())


def adds_up(changes: Counter[tuple[Any, ...]], batch: DataFrame) -> None:
    """Apply the changes of a batch."""
    for *row, diff in batch.collect():
        changes[tuple(row)] += diff
        if changes[tuple(row)] == 0:
            del changes[tuple(row)]


def refused(condition: str, call: Callable[[], object], text: str = "") -> None:
    """Expect an error of ours, at once or as the reason why a query failed."""
    with pytest.raises((sj.StreamJoinError, AnalysisException, StreamingQueryException)) as caught:
        call()
    error: Any = caught.value
    assert condition in str(error), str(error)
    assert isinstance(error, StreamingQueryException) or error.getCondition() == condition
    assert text in str(error)


# One arrangement ------------------------------------------------------------------------------------------------


def test_a_changelog_at_each_version(shop: Shop) -> None:
    shop.feed("orders", {"id": 1, "customer": 7, "day": 1, "op": "insert"}, {"id": 2, "customer": 7, "op": "c"})
    shop.feed("orders", {"id": 1, "customer": 8, "day": 1, "op": "update"})
    shop.feed("orders", {"id": 2, "op": "delete"}, {"id": 3, "customer": None, "day": 5, "op": "Insert"})
    shop.arrange("orders", ORDERS, [["id"], ["customer", "day"]], op="op")
    orders = sj.arrangement("orders")
    assert orders.schema.simpleString() == "struct<id:int,customer:int,day:int>"
    assert orders.keys == [["id"], ["customer", "day"]]
    assert orders.versions == (0, 2)
    assert orders.rows == 2
    assert orders.bytes > 0
    assert orders.readers == []
    assert "orders" in repr(orders) and "[customer, day]" in repr(orders)
    none = None
    expected = {0: [(1, 7, 1), (2, 7, none)], 1: [(1, 8, 1), (2, 7, none)], 2: [(1, 8, 1), (3, none, 5)]}
    for version, rows in expected.items():
        assert rows_of(orders.toDF(version)) == rows, f"version {version}"
    assert rows_of(orders.toDF()) == expected[2]
    by_path = shop.spark.read.format("streamjoin").load(orders.path)
    assert rows_of(by_path) == expected[2]


def test_changes_as_a_stream_that_goes_on(shop: Shop) -> None:
    seen: list[list[tuple[Any, ...]]] = []
    shop.feed("orders", {"id": 1, "customer": 7, "day": 1, "op": "insert"}, {"id": 2, "customer": 7, "op": "insert"})
    shop.arrange("orders", ORDERS, [["id"]], op="op")
    changes = sj.arrangement("orders").changes()
    assert changes.isStreaming
    assert changes.columns == ["id", "customer", "day", "_version", "_diff"]
    shop.run(changes, "changes", lambda batch, _: seen.append(rows_of(batch.select("id", "_version", "_diff"))))
    shop.feed("orders", {"id": 1, "customer": 9, "day": 1, "op": "update"})
    shop.feed("orders", {"id": 2, "op": "delete"})
    shop.arrange("orders", ORDERS, [["id"]], op="op")
    # From its checkpoint.
    shop.run(changes, "changes", lambda batch, _: seen.append(rows_of(batch.select("id", "_version", "_diff"))))
    assert seen == [[(1, 0, 1), (2, 0, 1)], [(1, 1, -1), (1, 1, 1), (2, 2, -1)]]


def test_the_batches_of_a_new_reader(shop: Shop) -> None:
    shop.feed("orders", *({"id": number, "customer": 7, "day": 1} for number in range(100)))
    shop.arrange("orders", "id INT, customer INT, day INT", [["id"]])
    sizes: list[int] = []
    changes = sj.arrangement("orders").changes(max_rows_per_trigger=25)
    shop.run(changes, "slices", lambda batch, _: sizes.append(batch.count()))
    assert sum(sizes) == 100
    assert len(sizes) == 4 and max(sizes) < 60
    for number in range(3):
        shop.feed("orders", {"id": 100 + number, "customer": 7, "day": 1})
    shop.arrange("orders", "id INT, customer INT, day INT", [["id"]])
    sizes.clear()
    changes = sj.arrangement("orders").changes(max_versions_per_trigger=2)
    shop.run(changes, "slices", lambda batch, _: sizes.append(batch.count()))
    assert sizes == [2, 1]


def test_debezium(shop: Shop) -> None:
    row = "STRUCT<id: INT, name: STRING>"
    schema = f"before {row}, after {row}, op STRING, ts_ms BIGINT"
    ada, eve = {"id": 1, "name": "Ada"}, {"id": 2, "name": "Eve"}
    shop.feed("names", {"op": "r", "after": ada, "ts_ms": 1}, {"op": "c", "after": eve, "ts_ms": 2})
    shop.feed("names", {"op": "u", "before": ada, "after": ada | {"name": "Ann"}, "ts_ms": 3})
    shop.feed("names", {"op": "d", "before": eve, "ts_ms": 4})
    shop.arrange("names", schema, [["id"]], op="op")
    names = sj.arrangement("names")
    assert names.schema.names == ["id", "name"]
    assert [rows_of(names.toDF(version)) for version in range(3)] == [
        [(1, "Ada"), (2, "Eve")],
        [(1, "Ann"), (2, "Eve")],
        [(1, "Ann")],
    ]


def test_the_rows_of_a_key_follow_each_other_by_time(shop: Shop) -> None:
    shop.feed(
        "names",
        {"id": 1, "name": "third", "at": 3, "op": "u"},
        {"id": 1, "name": "first", "at": 1, "op": "c"},
        {"id": 1, "name": "second", "at": 2, "op": "u"},
    )
    shop.arrange("names", "id INT, name STRING, at INT, op STRING", [["id"]], op="op", time="at")
    assert rows_of(sj.arrangement("names").toDF()) == [(1, "third", 3)]


def test_rows_that_are_added_and_stay(shop: Shop) -> None:
    shop.feed("visits", {"page": "a"}, {"page": "a"}, {"page": None})
    shop.feed("visits", {"page": "a"})
    shop.arrange("visits", "page STRING", [["page"]])
    visits = sj.arrangement("visits")
    assert visits.rows == 4
    assert Counter(row.page for row in visits.toDF().collect()) == {"a": 3, None: 1}


def test_updates_in_numbers_of_copies(shop: Shop) -> None:
    shop.feed("stock", {"item": "cup", "n": 3}, {"item": "pot", "n": 1})
    shop.feed("stock", {"item": "cup", "n": -2}, {"item": "pot", "n": -1}, {"item": "pan", "n": 1})
    shop.arrange("stock", "item STRING, n INT", [["item"]], diff="n")
    stock = sj.arrangement("stock")
    assert rows_of(stock.toDF(0)) == [("cup",), ("cup",), ("cup",), ("pot",)]
    assert rows_of(stock.toDF()) == [("cup",), ("pan",)]


def test_copies_below_zero_are_put_right(shop: Shop) -> None:
    shop.feed("stock", {"item": "cup", "n": -1})
    shop.arrange("stock", "item STRING, n INT", [["item"]], diff="n")
    stock = sj.arrangement("stock")
    assert (stock.rows, stock.toDF().collect()) == (-1, [])
    shop.feed("stock", {"item": "cup", "n": 3})
    shop.arrange("stock", "item STRING, n INT", [["item"]], diff="n")
    assert (stock.rows, rows_of(stock.toDF())) == (2, [("cup",), ("cup",)])


def test_changes_of_a_table_as_spark_spells_them(shop: Shop) -> None:
    def row(kind: str, number: int, name: str) -> Values:
        return {"id": number, "name": name, "_change_type": kind, "_commit_version": shop.files}

    shop.feed("names", row("insert", 1, "Ada"), row("insert", 2, "Eve"))
    shop.feed("names", row("update_preimage", 1, "Ada"), row("update_postimage", 1, "Ann"), row("delete", 2, "Eve"))
    schema = "id INT, name STRING, _change_type STRING, _commit_version BIGINT"
    changes = shop.stream("names", schema).drop("_commit_version")
    writer = sj.arrange(changes, "names", [["id"]], op="_change_type").trigger(availableNow=True)
    writer.start(checkpointLocation=shop.checkpoint("names")).awaitTermination()
    assert rows_of(sj.arrangement("names").toDF()) == [(1, "Ann")]


def test_an_aggregation_in_update_mode_is_a_changelog(shop: Shop) -> None:
    for number in range(4):
        shop.feed("orders", {"id": number, "customer": number % 3, "day": 1})
    orders = shop.stream("orders", "id INT, customer INT, day INT")
    counts = orders.groupBy("customer").count().withColumn("op", F.lit("update"))
    writer = sj.arrange(counts, "counts", [["customer"]], op="op").outputMode("update").trigger(availableNow=True)
    writer.start(checkpointLocation=shop.checkpoint("counts")).awaitTermination()
    found = sj.arrangement("counts")
    assert rows_of(found.toDF()) == [(0, 2), (1, 1), (2, 1)]
    assert rows_of(found.toDF(2)) == [(0, 1), (1, 1), (2, 1)]
    # Without an operation, the old count of a customer would stay beside the new one.
    added = sj.arrange(counts.drop("op"), "added", [["customer"]]).outputMode("update")
    with pytest.raises(AnalysisException, match="STREAMJOIN_ARRANGEMENT_OUTPUT_MODE"):
        added.start(checkpointLocation=shop.checkpoint("added"))


def test_an_aggregation_of_a_join_is_an_arrangement(shop: Shop) -> None:
    for changes in ROUNDS:
        play(shop, changes)
        sums = joined().groupBy("id").agg(F.sum(F.expr("cents * _diff")).alias("cents"), F.sum("_diff").alias("lines"))
        sums = sums.withColumn("op", F.expr("IF(lines = 0, 'delete', 'update')"))
        writer = sj.arrange(sums, "sums", [["id"]], op="op").outputMode("update").trigger(availableNow=True)
        writer.start(checkpointLocation=shop.checkpoint("sums")).awaitTermination()
        expected: dict[int, tuple[int, int]] = {}
        for _, order, _, cents in answer():
            before = expected.get(order, (0, 0))
            expected[order] = (before[0] + cents, before[1] + 1)
        assert rows_of(sj.arrangement("sums").toDF()) == sorted((key, *value) for key, value in expected.items())


def test_the_arrangements_of_a_folder_in_sql(shop: Shop) -> None:
    assert shop.spark.sql("SELECT * FROM sj_arrangements()").collect() == []
    shop.feed("orders", {"id": 1, "customer": 7, "day": 1, "op": "insert"})
    shop.arrange("orders", ORDERS, [["id"], ["customer"]], op="op")
    shop.feed("visits", {"page": "a"})
    shop.arrange("visits", "page STRING", [["page"]])
    (shop.folder / "arrangements" / "no arrangement").mkdir()
    first, second = shop.spark.sql("SELECT * FROM sj_arrangements() ORDER BY name").collect()
    assert (first.name, first["keys"], first.input) == ("orders", [["id"], ["customer"]], "changelog")
    assert (first.oldest_version, first.newest_version, first.rows, first.partitions) == (0, 0, 1, 2)
    assert (first.readers, first.versions_behind, len(first.query_id)) == ([], None, 36)
    assert (second.name, second.input) == ("visits", "append")
    (one,) = shop.spark.sql("SELECT name, path FROM sj_arrangements('visits')").collect()
    assert (one.name, one.path) == ("visits", second.path)


def test_readers_and_how_far_behind_they_are(shop: Shop) -> None:
    shop.feed("orders", {"id": 1, "customer": 7, "day": 1, "op": "insert"})
    shop.arrange("orders", ORDERS, [["id"]], op="op")
    orders = sj.arrangement("orders")
    shop.run(orders.changes(), "reader", lambda batch, _: None)
    (before,) = orders.readers
    assert (before.version, before.versions_behind) == (0, 0)
    for day in range(2, 4):
        shop.feed("orders", {"id": 1, "customer": 7, "day": day, "op": "update"})
    shop.arrange("orders", ORDERS, [["id"]], op="op")
    (after,) = orders.readers
    assert (after.name, after.version, after.versions_behind) == (before.name, 0, 2)
    assert after.since == before.since
    assert shop.spark.sql("SELECT versions_behind FROM sj_arrangements()").collect() == [(2,)]


def test_an_arrangement_without_a_version(shop: Shop) -> None:
    shop.arrange("orders", ORDERS, [["id"]], op="op")
    orders = sj.arrangement("orders")
    assert (orders.versions, orders.rows, orders.bytes) == (None, 0, 0)
    assert orders.toDF().collect() == []


def test_a_path_with_a_quote(shop: Shop, tmp_path: Path) -> None:
    path = str(tmp_path / "the shop's" / "visits")
    shop.feed("visits", {"page": "a"})
    writer = sj.arrange(shop.stream("visits", "page STRING"), path, [["page"]]).trigger(availableNow=True)
    writer.start(checkpointLocation=shop.checkpoint("visits")).awaitTermination()
    assert sj.arrangement(path).rows == 1


# Delta joins ----------------------------------------------------------------------------------------------------

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
    # All three at once: a customer moves, an order gets a day, a line goes and one comes.
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
    """Let a round of changes come, each table's as a version."""
    for name, rows in changes.items():
        shop.feed(name, *rows)
        schema, keys = TABLES[name]
        shop.arrange(name, schema, keys, op="op")


def answer() -> list[tuple[Any, ...]]:
    """Return DuckDB's answer over the tables as they are."""
    with duckdb.connect() as db:
        for alias, name in (("c", "customers"), ("o", "orders"), ("l", "lines")):
            rows = sj.arrangement(name).toDF().toPandas()
            db.register(f"all_{alias}", rows)
            db.execute(f"CREATE TABLE {alias} AS SELECT * FROM all_{alias}")
        return sorted(db.execute(f"SELECT {', '.join(JOINED)} FROM c, o, l WHERE {CONDITION}").fetchall())


def joined(**options: Any) -> DataFrame:
    return sj.delta_join({"c": "customers", "o": "orders", "l": "lines"}, CONDITION, JOINED, **options)


def test_a_join_of_three_is_merged_into_a_table(shop: Shop) -> None:
    """As docs/delta-joins.md has it: a batch that runs twice writes the same table."""
    play(shop, ROUNDS[0])
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
            play(shop, changes)
        shop.run(joined(), "result", merge)
        assert rows_of(shop.spark.read.parquet(table(written[-1]))) == answer(), f"round {number}"
    assert answer() == [(2, 13, 1, 9)]


def test_the_result_is_an_arrangement_again(shop: Shop) -> None:
    total: Counter[tuple[Any, ...]] = Counter()
    for changes in ROUNDS:
        play(shop, changes)
        result = sj.arrange(joined(), "result", [["id", "line"], ["customer"]], diff="_diff").trigger(availableNow=True)
        result.start(checkpointLocation=shop.checkpoint("result")).awaitTermination()
        found = sj.arrangement("result")
        assert found.schema.names == ["customer", "id", "line", "cents"]
        assert rows_of(found.toDF()) == answer()
        # A join with what is itself a join.
        again = sj.delta_join({"r": "result", "c": "customers"}, "r.customer = c.customer", ["r.id", "c.segment"])
        shop.run(again, "again", lambda batch, _: adds_up(total, batch))
        assert sorted(total.elements()) == sorted((row[1], "BUILDING") for row in answer())


def test_the_join_in_sql(shop: Shop) -> None:
    total: Counter[tuple[Any, ...]] = Counter()
    for changes in ROUNDS:
        play(shop, changes)
        df = shop.spark.sql(f"""
            SELECT {", ".join(JOINED)} FROM STREAM customers AS c, STREAM orders AS o, STREAM lines AS l
            WHERE {CONDITION}""")
        assert df.isStreaming and df.columns == ["customer", "id", "line", "cents", "_diff"]
        shop.run(df, "sql", lambda batch, _: adds_up(total, batch))
        assert sorted(total.elements()) == answer()
    one = shop.spark.sql("SELECT * FROM STREAM orders")
    assert one.isStreaming and one.columns == ["id", "customer", "day", "_version", "_diff"]


def test_a_left_join(shop: Shop) -> None:
    on = "c.customer = o.customer AND o.day < 20"
    total: Counter[tuple[Any, ...]] = Counter()
    padded = 0
    for changes in ROUNDS:
        play(shop, changes)
        df = sj.delta_join({"c": "customers", "o": "orders"}, on, ["c.customer", "o.id"], how="left")
        shop.run(df, "left", lambda batch, _: adds_up(total, batch))
        with duckdb.connect() as db:
            for alias, name in (("c", "customers"), ("o", "orders")):
                db.register(alias, sj.arrangement(name).toDF().toPandas())
            expected = db.execute(f"SELECT c.customer, o.id FROM c LEFT JOIN o ON {on}").fetchall()
        assert total == Counter(expected)
        padded += (2, None) in expected
    assert padded > 0


# In SQL --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def shop_of_two(shop: Shop) -> Shop:
    shop.feed("customers", {"customer": 1, "segment": "A", "op": "i"}, {"customer": 2, "segment": "B", "op": "i"})
    shop.feed("orders", {"id": 1, "customer": 1, "day": 5, "op": "i"}, {"id": 2, "customer": 9, "day": 5, "op": "i"})
    shop.feed("orders", {"id": 2, "customer": 1, "day": 6, "op": "u"}, {"id": 3, "customer": 1, "day": 7, "op": "i"})
    shop.arrange("customers", CUSTOMERS, [["customer"]], op="op")
    shop.arrange("orders", ORDERS, [["id"], ["customer"]], op="op")
    return shop


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
    query = shop_of_two.spark.sql(f"SELECT {select}")
    found: Counter[str] = Counter()
    shop_of_two.run(
        query, "sql", lambda df, _: found.update("".join(str(v or "") for v in r[:2]) for r in df.collect())
    )
    assert sorted(found.elements()) == rows.split()


def test_a_star_has_the_columns_of_the_rows(shop_of_two: Shop) -> None:
    query = "SELECT * FROM STREAM customers JOIN STREAM orders ON customers.customer = orders.customer"
    assert shop_of_two.spark.sql(query).columns == ["customer", "segment", "id", "customer", "day", "_diff"]
    assert shop_of_two.spark.sql("SELECT * FROM STREAM customers").columns == [
        "customer",
        "segment",
        "_version",
        "_diff",
    ]


def test_a_view_of_the_name_goes_first(shop_of_two: Shop) -> None:
    shop_of_two.stream("orders", ORDERS).createOrReplaceTempView("orders")
    assert shop_of_two.spark.sql("SELECT * FROM STREAM orders").columns == ["id", "customer", "day", "op"]
    shop_of_two.spark.catalog.dropTempView("orders")


@pytest.mark.parametrize(
    ("query", "condition", "text"),
    [
        ("SELECT id FROM STREAM customers JOIN STREAM orders USING (customer)", "STREAMJOIN_DELTA", "with ON"),
        (
            "SELECT count(*) FROM STREAM customers c JOIN STREAM orders o ON c.customer = o.customer",
            "STREAMJOIN_DELTA",
            "outer query",
        ),
        (
            "SELECT o.id FROM STREAM customers c RIGHT JOIN STREAM orders o ON c.customer = o.customer",
            "STREAMJOIN_DELTA",
            "left outer join of two",
        ),
        (
            "SELECT o.id FROM STREAM customers c JOIN STREAM orders o ON c.customer < o.customer",
            "STREAMJOIN_DELTA_CONDITION",
            "equalities",
        ),
        (
            "SELECT o.id FROM STREAM customers c JOIN STREAM orders o ON c.segment = CAST(o.id AS STRING)",
            "STREAMJOIN_DELTA_INDEX",
            "[segment]",
        ),
    ],
)
def test_what_sql_cannot_join(shop_of_two: Shop, query: str, condition: str, text: str) -> None:
    refused(condition, lambda: shop_of_two.spark.sql(query), text)


def test_two_queries_and_a_restart(shop: Shop) -> None:
    totals: dict[str, Counter[tuple[Any, ...]]] = {"first": Counter(), "second": Counter()}
    for number, changes in enumerate(ROUNDS):
        play(shop, changes)
        for name, total in totals.items():
            # The second begins later, with what is there.
            if name == "first" or number > 1:
                shop.run(joined(), name, lambda batch, _, total=total: adds_up(total, batch))  # type: ignore[misc]
                assert sorted(total.elements()) == answer(), f"{name}, round {number}"
    assert len(sj.arrangement("orders").readers) == 2


def test_a_batch_of_versions(shop: Shop) -> None:
    for changes in ROUNDS:
        play(shop, changes)
    total: Counter[tuple[Any, ...]] = Counter()
    shop.run(joined(max_versions_per_trigger=1), "slow", lambda batch, _: adds_up(total, batch))
    assert sorted(total.elements()) == answer()
    total = Counter()
    shop.run(joined(max_rows_per_trigger=2), "slices", lambda batch, _: adds_up(total, batch))
    assert sorted(total.elements()) == answer()


def test_a_live_query(shop: Shop) -> None:
    play(shop, ROUNDS[0])
    total: Counter[tuple[Any, ...]] = Counter()
    writer = joined().writeStream.foreachBatch(lambda batch, _: adds_up(total, batch))
    query: StreamingQuery = writer.option("checkpointLocation", shop.checkpoint("live")).start()
    for changes in ROUNDS[1:]:
        play(shop, changes)
        query.processAllAvailable()
        assert sorted(total.elements()) == answer()
    metrics = [source.metrics or {} for progress in query.recentProgress for source in progress.sources]
    assert metrics[-1]["versionsBehind"] == "0"
    looked_up = [each for each in metrics if "loadedRows" in each]
    assert looked_up and int(looked_up[-1]["executorIndexBytes"]) > 0
    assert {"version", "rows", "loadTimeMs"} <= looked_up[-1].keys()


def test_the_progress_of_a_maintaining_query(shop: Shop) -> None:
    shop.feed("orders", {"id": 1, "customer": 7, "day": 1, "op": "update"}, {"id": 2, "op": "delete"})
    query = (
        sj.arrange(shop.stream("orders", ORDERS), "orders", [["id"]], op="op")
        .trigger(availableNow=True)
        .start(checkpointLocation=shop.checkpoint("orders"))
    )
    query.awaitTermination()
    (progress,) = (each for each in query.recentProgress if each.sink.metrics)
    metrics = progress.sink.metrics
    assert (metrics["version"], metrics["since"], metrics["rows"]) == ("0", "0", "1")
    assert (metrics["updatesOfUnknownKeys"], metrics["deletesOfUnknownKeys"]) == ("1", "1")
    assert int(metrics["changeBytes"]) > 0


def test_the_time_of_a_result_is_the_latest(shop: Shop) -> None:
    for name, at in (("a", 5), ("b", 9)):
        shop.feed(name, {"k": 1, "at": at, "op": "insert"})
        shop.arrange(name, "k INT, at INT, op STRING", [["k"]], op="op", time="at")
    df = sj.delta_join({"a": "a", "b": "b"}, "a.k = b.k", "a.k")
    assert df.columns == ["k", "_time", "_diff"]
    found: list[tuple[Any, ...]] = []
    shop.run(df, "timed", lambda batch, _: found.extend(rows_of(batch)))
    assert found == [(1, 9, 1)]


def test_the_columns_of_a_result(shop: Shop) -> None:
    play(shop, ROUNDS[0])

    def columns(select: str | list[str] | None) -> list[str]:
        on = "c.customer = o.customer"
        return sj.delta_join({"c": sj.arrangement("customers"), "o": "orders"}, on, select).columns

    everything = ["customer", "segment", "id", "customer", "day", "_diff"]
    assert columns(None) == columns("*") == everything
    assert columns("o.*") == ["id", "customer", "day", "_diff"]
    assert columns(["o.id + 1 AS next", "upper(c.segment)"]) == ["next", "upper(segment)", "_diff"]
    for own in ("o._diff", "o._version + 1 AS version"):
        refused("STREAMJOIN_DELTA", partial(columns, own), "_diff")
    on = "c.customer = o.customer AND c._version = o._version"
    refused("STREAMJOIN_DELTA", lambda: sj.delta_join({"c": "customers", "o": "orders"}, on))
    total: Counter[tuple[Any, ...]] = Counter()
    df = sj.delta_join({"c": "customers", "o": "orders"}, "c.customer = o.customer", ["o.id + 1 AS next", "'x' AS x"])
    shop.run(df, "values", lambda batch, _: adds_up(total, batch))
    assert sorted(total.elements()) == [(11, "x"), (12, "x"), (13, "x")]


def test_the_plan_of_a_batch(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    play(shop, ROUNDS[0])
    query: StreamingQuery = (
        joined().writeStream.format("noop").option("checkpointLocation", shop.checkpoint("plan")).start()
    )
    query.processAllAvailable()
    play(shop, {"orders": [{"id": 10, "customer": 1, "day": 6, "op": "update"}]})
    query.processAllAvailable()
    capsys.readouterr()
    joined().explain()
    assert capsys.readouterr().out.count("LookUp") == 6
    query.explain()
    steps = [line.lstrip("+-: *") for line in capsys.readouterr().out.splitlines()]
    assert [step for step in steps if step.startswith(("LookUp", "Changes"))] == [
        "LookUp l by (id), keeps nothing",
        "LookUp c by (customer), keeps nothing",
        "Changes of o",
    ]


def test_an_arrangement_with_itself(shop: Shop) -> None:
    rows: list[Values] = [{"id": 1, "boss": None}, {"id": 2, "boss": 1}, {"id": 3, "boss": 2}]
    total: Counter[tuple[Any, ...]] = Counter()
    for row in reversed(rows):
        shop.feed("people", row)
        shop.arrange("people", "id INT, boss INT", [["id"], ["boss"]])
        df = sj.delta_join({"e": "people", "m": "people"}, "e.boss = m.id", ["e.id", "m.id AS boss"])
        shop.run(df, "pairs", lambda batch, _: adds_up(total, batch))
    assert sorted(total.elements()) == [(2, 1), (3, 2)]


# Errors ---------------------------------------------------------------------------------------------------------


def test_what_cannot_be_arranged(shop: Shop) -> None:
    stream = shop.stream("orders", ORDERS)

    def arrange(df: Any = stream, keys: Any = (["id"],), **options: Any) -> Any:
        return lambda: sj.arrange(df, "orders", keys, **options)

    refused("STREAMJOIN_WRONG_ARGUMENT", arrange(keys=["id"]), 'keys=[["order_id"]')
    for keys in ("id", None, 7, [[1]], [None]):
        refused("STREAMJOIN_WRONG_ARGUMENT", arrange(keys=keys), "a list of columns")
    refused("STREAMJOIN_WRONG_ARGUMENT", arrange(op=1), "op")
    refused("STREAMJOIN_WRONG_ARGUMENT", lambda: sj.arrange(stream, " ", [["id"]]), "name")
    refused("STREAMJOIN_WRONG_ARGUMENT", lambda: sj.arrange(stream, 7, [["id"]]), "name")  # type: ignore[arg-type]
    refused("STREAMJOIN_WRONG_ARGUMENT", lambda: sj.arrange("orders", "orders", [["id"]]))  # type: ignore[arg-type]
    refused("STREAMJOIN_NOT_A_STREAM", arrange(shop.spark.range(1)))
    refused("STREAMJOIN_ARRANGE", arrange(keys=[]), "keys= has no key")
    refused("STREAMJOIN_ARRANGE", arrange(keys=[["id"], ["id"]]), "twice")
    refused("STREAMJOIN_ARRANGE", arrange(keys=[["key"]]), "`key`, which is no column")
    refused("STREAMJOIN_ARRANGE", arrange(op="op", diff="day"), "exclude each other")
    refused("STREAMJOIN_ARRANGE", arrange(op="day"), "has to be a string")
    refused("STREAMJOIN_ARRANGE", arrange(diff="op"), "has to be a whole number")
    refused("STREAMJOIN_ARRANGE", arrange(op="operation"))
    refused("STREAMJOIN_ARRANGE", arrange(op="op", time="moment"))
    refused("STREAMJOIN_ARRANGE", arrange(stream.withColumn("_diff", F.lit(1))), "_diff")
    refused("STREAMJOIN_ARRANGE", arrange(stream.withColumn("id", F.expr("map(id, id)"))), "Maps")
    shop.spark.conf.unset("spark.streamjoin.arrangements")
    refused("STREAMJOIN_NO_ARRANGEMENTS_FOLDER", arrange())


def test_an_operation_that_is_none(shop: Shop) -> None:
    shop.feed("orders", {"id": 1, "customer": 7, "day": 1, "op": "upsert"})
    refused("STREAMJOIN_OPERATION", lambda: shop.arrange("orders", ORDERS, [["id"]], op="op"), '"upsert"')


def test_an_arrangement_goes_on_as_it_began(shop: Shop) -> None:
    shop.feed("orders", {"id": 1, "customer": 7, "day": 1, "op": "insert"})
    shop.arrange("orders", ORDERS, [["id"]], op="op")
    stream = shop.stream("orders", ORDERS)

    def start(df: DataFrame, keys: list[list[str]], checkpoint: str = "orders", **options: str) -> Any:
        writer = sj.arrange(df, "orders", keys, **options).trigger(availableNow=True)
        return lambda: writer.start(checkpointLocation=shop.checkpoint(checkpoint)).awaitTermination()

    refused("STREAMJOIN_ARRANGEMENT_CHANGED", start(stream, [["id"], ["day"]], op="op"), "other keys")
    refused("STREAMJOIN_ARRANGEMENT_CHANGED", start(stream.drop("day"), [["id"]], op="op"), "other columns")
    refused("STREAMJOIN_ARRANGEMENT_CHANGED", start(stream.drop("op"), [["id"]]), "other input")
    refused("STREAMJOIN_ARRANGEMENT_CHANGED", start(stream, [["id"]], op="op", time="day"), "other time")
    refused("STREAMJOIN_ARRANGEMENT_OWNED", start(stream, [["id"]], checkpoint="another", op="op"))
    plain = stream.writeStream.format("streamjoin").option("path", "orders").trigger(availableNow=True)
    refused(
        "STREAMJOIN_ARRANGEMENT_SINK",
        lambda: plain.start(checkpointLocation=shop.checkpoint("plain")).awaitTermination(),
    )


def test_what_cannot_be_read(shop: Shop) -> None:
    shop.feed("orders", {"id": 1, "customer": 7, "day": 1, "op": "insert"})
    shop.arrange("orders", ORDERS, [["id"]], op="op")
    refused("STREAMJOIN_WRONG_ARGUMENT", lambda: sj.arrangement(None))  # type: ignore[arg-type]
    refused("STREAMJOIN_WRONG_ARGUMENT", lambda: sj.arrangement(""))
    refused("STREAMJOIN_NO_ARRANGEMENT", lambda: sj.arrangement("returns"), "returns")
    refused("STREAMJOIN_NO_ARRANGEMENT", lambda: shop.spark.read.format("streamjoin").load("returns"))
    refused("STREAMJOIN_NO_ARRANGEMENT", lambda: sj.delta_join({"o": "orders", "r": "returns"}, "o.id = r.id"))
    orders = sj.arrangement("orders")
    refused("STREAMJOIN_NO_VERSION", lambda: orders.toDF(1).collect(), "the newest is 0")
    refused("STREAMJOIN_OPTION", lambda: orders.toDF(-1).collect(), "version")
    refused("STREAMJOIN_OPTION", lambda: shop.spark.read.format("streamjoin").load())
    refused("STREAMJOIN_WRONG_ARGUMENT", lambda: orders.changes(max_rows_per_trigger=0), "max_rows_per_trigger")
    refused("STREAMJOIN_TABLE_FUNCTION", lambda: shop.spark.sql("SELECT * FROM sj_arrangements(1)"))
    shop.spark.conf.unset("spark.streamjoin.arrangements")
    refused("STREAMJOIN_NO_ARRANGEMENTS_FOLDER", lambda: sj.arrangement("orders"))
    refused("STREAMJOIN_TABLE_FUNCTION", lambda: shop.spark.sql("SELECT * FROM sj_arrangements()"), "is not set")
    assert sj.arrangement(orders.path).rows == 1


def test_a_version_that_is_not_kept(shop: Shop) -> None:
    shop.spark.conf.set("spark.streamjoin.arrangements.minVersionsToRetain", "2")
    try:
        for day in range(5):
            shop.feed("orders", {"id": 1, "customer": 7, "day": day, "op": "update"})
        shop.arrange("orders", ORDERS, [["id"]], op="op")
    finally:
        shop.spark.conf.unset("spark.streamjoin.arrangements.minVersionsToRetain")
    orders = sj.arrangement("orders")
    assert orders.versions == (2, 4)
    assert rows_of(orders.toDF(2)) == [(1, 7, 2)]
    refused("STREAMJOIN_ARRANGEMENT_RETENTION", lambda: orders.toDF(1).collect(), "since version 2")


def test_a_reader_that_stays_away_for_too_long(shop: Shop) -> None:
    shop.feed("orders", {"id": 1, "customer": 7, "day": 0, "op": "insert"})
    shop.arrange("orders", ORDERS, [["id"]], op="op")
    orders = sj.arrangement("orders")
    shop.run(orders.changes(), "reader", lambda batch, _: None)
    settings = {"minVersionsToRetain": "1", "leaseAge": "1ms"}
    for name, value in settings.items():
        shop.spark.conf.set(f"spark.streamjoin.arrangements.{name}", value)
    try:
        for day in range(1, 5):
            shop.feed("orders", {"id": 1, "customer": 7, "day": day, "op": "update"})
        shop.arrange("orders", ORDERS, [["id"]], op="op")
    finally:
        for name in settings:
            shop.spark.conf.unset(f"spark.streamjoin.arrangements.{name}")
    assert orders.readers == []
    read = partial(shop.run, orders.changes(), "reader", lambda batch, _: None)
    refused("STREAMJOIN_ARRANGEMENT_RETENTION", read, "since version 3")
    shop.run(orders.changes(), "from a new checkpoint", lambda batch, _: None)


def test_a_damaged_arrangement(shop: Shop) -> None:
    shop.feed("orders", {"id": 1, "customer": 7, "day": 1, "op": "insert"})
    shop.arrange("orders", ORDERS, [["id"]], op="op")
    folder = shop.folder / "arrangements" / "orders"
    for file in (folder / "meta.json", folder / ".meta.json.crc"):
        file.unlink(missing_ok=True)
    (folder / "meta.json").write_text("{}")
    refused("STREAMJOIN_ARRANGEMENT_UNREADABLE", lambda: sj.arrangement("orders"), "meta.json")


def test_what_cannot_be_joined(shop: Shop) -> None:
    play(shop, ROUNDS[0])

    def join(on: str, select: Any = "o.id", **inputs: str) -> Any:
        return lambda: sj.delta_join(inputs or {"c": "customers", "o": "orders"}, on, select)

    wrong: list[tuple[Any, ...]] = [
        (["customers", "orders"], "true"),
        ({"c": 1, "o": "orders"}, "c.customer = o.customer"),
        ({"c": "customers", "o": "orders"}, F.expr("c.customer = o.customer")),
        ({"c": "customers", "o": "orders"}, "c.customer = o.customer", [F.col("o.id")]),
        ({"c": "customers", "o": "orders"}, "c.customer = o.customer", F.col("o.id")),
    ]
    for arguments in wrong:
        refused("STREAMJOIN_WRONG_ARGUMENT", partial(sj.delta_join, *arguments))
    refused("STREAMJOIN_WRONG_ARGUMENT", lambda: joined(max_versions_per_trigger=0), "max_versions_per_trigger")
    refused("STREAMJOIN_DELTA", join("o.id = 1", o="orders"), "not two inputs")
    refused("STREAMJOIN_DELTA_CONDITION", join("c.customer < o.customer"))
    refused("STREAMJOIN_JOIN_TYPE", lambda: joined(how="full"))
    refused("STREAMJOIN_DELTA", lambda: joined(how="left"), "more than two inputs")
    refused("STREAMJOIN_DELTA_INDEX", join("o.day = l.cents", o="orders", l="lines"), "[cents]")
    refused("STREAMJOIN_DELTA", join("c.customer = o.customer AND rand() < 0.5"))
    refused("STREAMJOIN_DELTA", join("c.customer = o.customer", "count(*)"))
    refused("UNRESOLVED_COLUMN.WITH_SUGGESTION", join("c.customer = o.client"))
    refused("PARSE_SYNTAX_ERROR", join("c.customer = = o.customer"))
