"""Changes keep databases current by key: PostgreSQL, MariaDB, and Derby for standard SQL."""

import os
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from arranged_shop import ROUNDS, Shop, answer, joined
from conftest import LONG, printed_seed, rejected
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from queries import Values
from servers.mariadb import MariaDb
from servers.postgres import Postgres
from upserts import COLUMNS, Kept, change, forget_commit, run, tables

import streamjoin as sj

Table = list[tuple[Any, ...]]
Read = Callable[[], Table]


def test_a_delta_join_keeps_a_table_current(shop: Shop, database: Postgres) -> None:
    # Another order of columns, one that the join does not have, and names in capitals.
    database.query(
        'CREATE TABLE "Lines" (cents INT, "ID" INT, line INT, customer INT NOT NULL, PRIMARY KEY ("ID", line))'
    )
    target = database.options('"Lines"')
    for number, changes in enumerate(ROUNDS if LONG else ROUNDS[:3]):
        shop.play(changes)
        query = run(joined(), target, ["id", "line"], shop.checkpoint("upsert"))
        found = database.query('SELECT customer, "ID", line, cents FROM "Lines"')
        assert sorted(tuple(map(int, row)) for row in found) == sorted(answer()), f"round {number}"
        if number == 0:
            sink = query.recentProgress[0]["sink"]
            assert sink["metrics"] == {"upserts": "1", "deletes": "0", "replayed": "0"}
            assert database.password not in str(sink)
    assert tables(database) == {"Lines", "streamjoin_batches"}, "no staging table is left"


@pytest.mark.skipif(not LONG, reason="a part of make test-long; test_delta_join.py has outer joins")
@pytest.mark.parametrize("how", ["left", "full"])
def test_an_outer_join_has_nulls_in_its_key(shop: Shop, database: Postgres, how: str) -> None:
    database.query("CREATE SCHEMA own; CREATE TABLE own.pairs (customer INT, id INT, UNIQUE (customer, id))")
    on = "c.customer = o.customer AND o.day < 20"
    padded = 0
    for changes in ROUNDS:
        shop.play({name: changes[name] for name in ("customers", "orders") if name in changes})
        df = sj.delta_join({"c": "customers", "o": "orders"}, on, ["c.customer", "o.id"], how=how)
        run(df, database.options("own.pairs"), ["customer", "id"], shop.checkpoint(how))
        expected = answer(how, on)
        assert sorted(map(tuple, database.query("SELECT * FROM own.pairs"))) == sorted(
            tuple("" if value is None else str(value) for value in row) for row in expected
        )
        padded += any(None in row for row in expected)
    assert padded > 0
    assert database.query("SELECT count(*) FROM own.streamjoin_batches") == [["1"]], "it is next to the target"
    database.query("DROP SCHEMA own CASCADE")


TWO_ROWS = [change(1, "x", 1, 1), change(1, "y", 1, 1), change(2, "x", 1, 1)]


@pytest.mark.parametrize(
    ("wrong", "condition", "said"),
    [
        (TWO_ROWS, "STREAMJOIN_UPSERT.TWO_ROWS", 'the key {"a":1} of a'),
        ([change(1, "x", 1, 1), change(1, "x", 1, 1)], "STREAMJOIN_UPSERT.TWO_ROWS", 'the key {"a":1} of a'),
        ([change(None, "x", 1, 2)], "STREAMJOIN_UPSERT.TWO_ROWS", 'the key {"a":null} of a'),
        ([change(1, "x", 1, None)], "STREAMJOIN_UPSERT.DIFF_NULL", "a null in _diff"),
    ],
)
def test_a_batch_that_cannot_be_leaves_the_target_alone(
    kept: Kept, database: Postgres, wrong: list[Values], condition: str, said: str
) -> None:
    database.query("CREATE TABLE t (a INT, b TEXT, v INT)")
    kept.feed(change(1, "before", 0, 1))
    kept.feed(change(1, "before", 0, -1), *wrong)
    rejected(condition, kept.run, said)
    assert database.query("SELECT * FROM t") == [["1", "before", "0"]]
    assert database.query("SELECT batch FROM streamjoin_batches") == [["0"]]
    if wrong == TWO_ROWS:
        # As the error says; the checkpoint continues.
        kept.run(["a", "b"])
        assert database.query("SELECT * FROM t ORDER BY a, b") == [["1", "x", "1"], ["1", "y", "1"], ["2", "x", "1"]]


def test_what_is_rejected_when_the_query_starts(shop: Shop, database: Postgres) -> None:
    database.query("CREATE TABLE t (a INT, v INT)")
    changes = shop.stream("changes", COLUMNS)
    target = database.options("t")

    def start(df: DataFrame = changes, to: Any = target, keys: Any = "a", mode: str = "append", **more: Any) -> None:
        writer = sj.upsert(df, to, keys, **more).outputMode(mode)
        writer.start(checkpointLocation=shop.checkpoint("rejected")).stop()

    without = changes.drop("b")
    start(without)
    rejected("STREAMJOIN_UPSERT.NO_COLUMN", start, "the table t has no column b")
    rejected("STREAMJOIN_UPSERT.UNKNOWN_KEY", lambda: start(keys="k"), "the key k is not a column")
    rejected("STREAMJOIN_UPSERT.KEY_COLUMN_TWICE", lambda: start(keys=["a", "A"]), "a column twice")
    rejected("STREAMJOIN_UPSERT.UNKNOWN_KEY", lambda: start(keys=["_diff"]), "the key _diff is not a column")
    rejected("STREAMJOIN_UPSERT.NO_DIFF", lambda: start(changes.drop("_diff")), "no column _diff")
    rejected("STREAMJOIN_UPSERT.DIFF_TYPE", lambda: start(diff="b"), "the column b is STRING")
    by_map = changes.withColumn("a", F.create_map("a", "v"))
    rejected("STREAMJOIN_UPSERT.KEY_TYPE", lambda: start(by_map), "MAP<INT, INT>")
    database.query("CREATE TABLE typed (a INT, b INT, v INT); CREATE TABLE flags (a INT, b TEXT, v BOOLEAN)")
    typed, flags = database.options("typed"), database.options("flags")
    rejected("STREAMJOIN_UPSERT.COLUMN_TYPE", lambda: start(to=typed), "the column b of typed is int4")
    rejected("STREAMJOIN_UPSERT.COLUMN_TYPE", lambda: start(to=flags), "the column v of flags is bool")
    assert tables(database) == {"t", "typed", "flags"}
    rejected("STREAMJOIN_UPSERT.NO_TABLE", lambda: start(to=database.options("nothing")), "CREATE TABLE nothing (")
    counts = changes.groupBy("a").agg(F.count("*").alias("v"), F.lit(1).alias("_diff"))
    rejected("STREAMJOIN_UPSERT.COMPLETE_MODE", lambda: start(counts, mode="complete"), "complete mode")
    rejected("STREAMJOIN_NOT_A_STREAM.CHANGES", lambda: start(shop.spark.range(1)))
    for wrong in ("", {"url": "jdbc:x"}, {"kafka.bootstrap.servers": "x"}, {**target, "topic": ""}.keys(), None):
        rejected("STREAMJOIN_WRONG_ARGUMENT", partial(start, to=wrong))
    rejected("STREAMJOIN_WRONG_ARGUMENT", lambda: start(keys=[["a"], ["v"]]))
    rejected("STREAMJOIN_WRONG_ARGUMENT", lambda: start(keys=[]))

    def plain(**options: str) -> Callable[[], object]:
        writer = without.writeStream.format("streamjoin-upsert").options(**options)
        return partial(writer.start, checkpointLocation=shop.checkpoint("rejected"))

    a = '["a"]'
    rejected("STREAMJOIN_UPSERT.TARGET", plain(keys=a), "do not name one target")
    rejected("STREAMJOIN_UPSERT.TARGET", plain(table="t", **target, keys=a), "Give one target")
    rejected("STREAMJOIN_UPSERT.TABLE_OPTION", plain(table="t", fetchsize="1", keys=a), "the option fetchsize is not")
    rejected("STREAMJOIN_UPSERT.NO_KEY", plain(**target), "it has no key")
    rejected("STREAMJOIN_OPTION", plain(**target, keys="a"), "a JSON list")
    rejected("STREAMJOIN_UPSERT.PARTITION_BY", without.writeStream.partitionBy("a").format("streamjoin-upsert").start)


def test_many_tasks_and_a_limit_of_connections(kept: Kept, database: Postgres) -> None:
    database.query("CREATE TABLE t (a INT PRIMARY KEY, b TEXT, v INT)")
    kept.feed(*[change(number, "x", number, 1) for number in range(500)])
    kept.feed(*[change(number, "x", number, -1) for number in range(0, 500, 2)])
    kept.run(numPartitions="1", batchsize="7")
    assert database.query("SELECT count(*), sum(v), min(v) FROM t") == [["250", str(250**2), "1"]]


class Random:
    """Changes of a table with a key of two columns, null or not, cut into batches, and what the table has."""

    def __init__(self, seed: int, seconds: Sequence[str | int | None]) -> None:
        self.chance = random.Random(seed)
        self.seconds = seconds
        self.rows: dict[tuple[int | None, str | int | None], int | None] = {}

    def batch(self) -> list[Values]:
        changes = []
        for _ in range(self.chance.randrange(12)):
            key = (self.chance.choice([None, 1, 2, 3]), self.chance.choice(self.seconds))
            if key in self.rows:
                changes.append(change(*key, self.rows.pop(key), -1))
            if self.chance.random() < 0.6:
                self.rows[key] = self.chance.choice([None, *range(5)])
                changes.append(change(*key, self.rows[key], 1))
        self.chance.shuffle(changes)
        return changes

    def expected(self) -> Table:
        return in_order([(*key, value) for key, value in self.rows.items()])


def in_order(rows: Table) -> Table:
    return sorted(rows, key=repr)


def of_postgres(database: Postgres) -> Table:
    rows = database.query("SELECT coalesce(a::text, 'null'), coalesce(b, 'null'), coalesce(v::text, 'null') FROM t")
    read: Table = []
    for a, b, v in rows:
        read.append((None if a == "null" else int(a), None if b == "null" else b, None if v == "null" else int(v)))
    return in_order(read)


@pytest.mark.parametrize("create", ["a INT, b TEXT, v INT, UNIQUE (b, a)", "a INT, b TEXT, v INT"])
def test_random_changes(kept: Kept, database: Postgres, create: str) -> None:
    database.query(f"CREATE TABLE t ({create})")
    _check_random(kept, lambda: of_postgres(database), [None, "x", "y", "'\"`"])


def created_in_derby(spark: SparkSession, table: str, columns: str) -> dict[str, str]:
    url = f"jdbc:derby:memory:upsert{os.getpid()};create=true"
    jvm: Any = spark._jvm
    connection = jvm.java.sql.DriverManager.getConnection(url)
    connection.createStatement().execute(f"CREATE TABLE {table} ({columns})")
    connection.close()
    return {"url": url, "dbtable": table, "driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver"}


def test_a_key_that_derby_cannot_compare(shop: Shop, spark: SparkSession) -> None:
    target = created_in_derby(spark, "texts", '"a" CLOB, "v" INT')
    writer = sj.upsert(shop.stream("texts", "a STRING, v INT, _diff INT"), target, "a")
    said = "the database cannot compare the key a CLOB of texts"
    rejected(
        "STREAMJOIN_UPSERT.KEY_NOT_COMPARABLE", lambda: writer.start(checkpointLocation=shop.checkpoint("k")), said
    )


@pytest.mark.skipif(not LONG, reason="a part of make test-long; other targets get random changes, too")
def test_random_changes_in_standard_sql(shop: Shop, spark: SparkSession) -> None:
    """Derby has neither ON CONFLICT nor IF EXISTS."""
    target = created_in_derby(spark, "t", '"a" INT, "b" INT, "v" INT')

    def read() -> Table:
        return in_order([tuple(row) for row in spark.read.format("jdbc").options(**target).load().collect()])

    # Spark writes a null text into a CLOB of Derby, and a CLOB cannot be compared.
    columns = COLUMNS.replace("STRING", "INT")
    _check_random(Kept(shop, target, columns=columns), read, [None, 7, 8])
    # The table has an id, which the batch notes.
    last = Kept(shop, target, "last", columns)
    last.feed(change(1, 7, 1, 1))
    last.run(["a", "b"])
    noted = spark.read.format("jdbc").options(**target | {"dbtable": "streamjoin_batches"}).load()
    assert noted.where("filled_id IS NOT NULL").count() > 0


def _check_random(kept: Kept, read: Read, seconds: Sequence[str | int | None]) -> None:
    made = Random(printed_seed(), seconds)
    for _ in range(12 if LONG else 2):
        for _ in range(made.chance.randrange(1, 5)):
            kept.feed(*made.batch())
        kept.run(["a", "b"])
        assert read() == made.expected()
        if made.chance.random() < 0.5:
            forget_commit(kept.checkpoint)
            kept.run(["a", "b"])
            assert read() == made.expected()


def test_types_that_spark_writes_as_text(kept: Kept, database: Postgres) -> None:
    database.query("CREATE TABLE t (a INT PRIMARY KEY, b UUID, v INT)")
    first = "00000000-0000-0000-0000-000000000001"
    kept.feed(change(1, first, 1, 1), change(2, None, 1, 1))
    kept.feed(change(1, first, 1, -1), change(1, None, 1, 1), change(2, None, 1, -1), change(2, first, 1, 1))
    kept.run(url=f"{kept.target['url']}?stringtype=unspecified")
    assert database.query("SELECT * FROM t ORDER BY a") == [["1", "", "1"], ["2", first, "1"]]


def test_rows_that_swap_their_values_in_another_unique_index(kept: Kept, database: Postgres) -> None:
    database.query(
        "CREATE TABLE t (a INT PRIMARY KEY, b TEXT UNIQUE, v INT, note TEXT DEFAULT 'new');"
        "CREATE UNIQUE INDEX ON t (lower(b), (v > 100)) WHERE v < 1000;"
        "CREATE UNIQUE INDEX ON t (note, v);"
        "CREATE TABLE child (a INT REFERENCES t)"
    )
    kept.feed(*[change(a, b, a, 1) for a, b in ((1, "x"), (2, "y"), (3, "z"), (4, None))])
    kept.run()
    database.query("UPDATE t SET note = 'mine' WHERE a > 2; INSERT INTO child VALUES (4)")
    swap = [change(1, "x", 1, -1), change(2, "y", 2, -1), change(1, "y", 1, 1), change(2, "x", 2, 1)]
    kept.feed(*swap, change(3, "z", 3, -1), change(3, "q", 3, 1), change(4, None, 4, -1), change(4, "z", 4, 1))
    kept.run()
    # The row whose value another row took was deleted and inserted again; the others were updated.
    rows = [["1", "y", "1", "new"], ["2", "x", "2", "new"], ["3", "q", "3", "new"], ["4", "z", "4", "mine"]]
    assert database.query("SELECT * FROM t ORDER BY a") == rows
    # A value of a row whose key did not change is still an error, and that row stays.
    kept.feed(change(5, "q", 5, 1))
    with pytest.raises(StreamingQueryException, match="t_b_key"):
        kept.run()
    assert database.query("SELECT a FROM t WHERE b = 'q'") == [["3"]]


def test_rows_that_swap_their_values_in_an_index_with_a_column_of_the_target(kept: Kept, database: Postgres) -> None:
    database.query("CREATE TABLE t (a INT PRIMARY KEY, b TEXT, v INT, own TEXT DEFAULT 'new', UNIQUE (own, b))")
    kept.feed(change(1, "x", 1, 1), change(2, "y", 2, 1))
    kept.feed(change(1, "x", 1, -1), change(2, "y", 2, -1), change(1, "y", 1, 1), change(2, "x", 2, 1))
    kept.run()
    assert database.query("SELECT a, b, own FROM t ORDER BY a") == [["1", "y", "new"], ["2", "x", "new"]]
    # With different values in their own column, they do not conflict.
    database.query("UPDATE t SET own = 'mine' WHERE a = 2")
    kept.feed(change(1, "y", 1, -1), change(2, "x", 2, -1), change(1, "x", 1, 1), change(2, "y", 2, 1))
    kept.run()
    assert database.query("SELECT a, b, own FROM t ORDER BY a") == [["1", "x", "new"], ["2", "y", "mine"]]


@pytest.mark.skipif(not LONG, reason="a part of make test-long; other targets get the same changes")
def test_mariadb_keeps_a_table_current(shop: Shop, mariadb: MariaDb) -> None:
    mariadb.query("CREATE OR REPLACE TABLE t (a INT, b VARCHAR(9) COLLATE utf8mb4_nopad_bin, v INT, UNIQUE (a, b))")

    def read() -> Table:
        def value(of: str) -> int | None:
            return None if of == "NULL" else int(of)

        rows = mariadb.query("SELECT a, coalesce(b, 'null'), v FROM t")
        return in_order([(value(a), None if b == "null" else b, value(v)) for a, b, v in rows])

    _check_random(Kept(shop, mariadb.options("t")), read, [None, "x", "X", "x ", "'\"`"])
    # The alias of the staging table once had this name.
    kept = Kept(shop, mariadb.options("s"), "more")
    mariadb.query("CREATE OR REPLACE TABLE s (a INT PRIMARY KEY, b VARCHAR(9), v INT)")
    kept.feed(change(1, "x", 1, 1), change(2, "y", 2, 1))
    kept.feed(change(1, "x", 1, -1))
    kept.run()
    assert mariadb.query("SELECT * FROM s") == [["2", "y", "2"]]
    assert sorted(mariadb.query("SHOW TABLES")) == [["s"], ["streamjoin_batches"], ["t"]]
    kept.feed(change(3, "z", 3, 1))
    kept.run()
    mariadb.query("CREATE OR REPLACE TABLE s (a INT PRIMARY KEY, b VARCHAR(9), v INT)")
    kept.feed(change(4, "z", 4, 1))
    rejected("STREAMJOIN_UPSERT_BATCH.CREATED_AGAIN", kept.run, "was created again")


@pytest.mark.parametrize(
    ("key", "column", "same", "condition"),
    [
        ("STRING", "VARCHAR(9)", "'x' and 'X'", "STREAMJOIN_UPSERT.KEY_TEXTS"),
        ("STRING", "VARCHAR(9) COLLATE utf8mb4_bin", "'x' and 'x '", "STREAMJOIN_UPSERT.KEY_TEXTS"),
        ("STRING", "CHAR(9) COLLATE utf8mb4_nopad_bin", "'x' and 'x '", "STREAMJOIN_UPSERT.KEY_TEXTS"),
        ("BINARY", "BINARY(9)", "X'01' and X'0100'", "STREAMJOIN_UPSERT.KEY_VALUES"),
        ("TIMESTAMP", "DATETIME", "12:00:00", "STREAMJOIN_UPSERT.KEY_TIMES"),
        ("DECIMAL(12, 4)", "DECIMAL(12, 2)", "0.0001 and 0.0002", "STREAMJOIN_UPSERT.KEY_VALUES"),
        ("DOUBLE", "FLOAT", "1.0 and 1.0000000000000002", "STREAMJOIN_UPSERT.KEY_VALUES"),
    ],
)
def test_keys_that_mariadb_takes_for_one(
    shop: Shop, mariadb: MariaDb, key: str, column: str, same: str, condition: str
) -> None:
    mariadb.query(f"CREATE OR REPLACE TABLE k (k {column} PRIMARY KEY, v INT)")
    writer = sj.upsert(shop.stream("keys", f"k {key}, v INT, _diff INT"), mariadb.options("k"), "k")
    rejected(condition, lambda: writer.start(checkpointLocation=shop.checkpoint("k")), same)
    assert ["k"] in mariadb.query("SHOW TABLES")
    assert not mariadb.query("SHOW TABLES LIKE 'streamjoin%start'")
