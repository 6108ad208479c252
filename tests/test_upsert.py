"""Changes keep databases current by key: PostgreSQL, and Derby for what any database understands."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest
from conftest import LONG, ROOT, kill_group
from postgres import Postgres, binaries, driver_jar
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery
from shop import CONDITION, CUSTOMERS, JOINED, ORDERS, ROUNDS, Shop, Values, joined, play, refused

import streamjoin as sj

sys.path.insert(0, str(ROOT / "examples" / "demo"))

from spark_submit import environment, spark_submit

TOOLS = ROOT / ".tools"
COLUMNS = "a INT, b STRING, v INT, _diff INT"

Table = list[tuple[Any, ...]]
Read = Callable[[], Table]


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    if binaries() is None:
        pytest.skip("PostgreSQL is not installed (Debian's package `postgresql`)")
    with Postgres() as running:
        yield running


@pytest.fixture
def database(postgres: Postgres, spark: SparkSession) -> Postgres:
    spark.sql(f"ADD JAR '{driver_jar(TOOLS)}'")
    postgres.query("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return postgres


def run(df: DataFrame, target: Any, keys: Any, checkpoint: str, **options: Any) -> StreamingQuery:
    """Run a query to the end of its input."""
    writer = sj.upsert(df, target, keys, **options).trigger(availableNow=True)
    query = writer.start(checkpointLocation=checkpoint)
    query.awaitTermination()
    return query


def forget_commit(checkpoint: str) -> int:
    """Remove the last commit: a driver died after the target had the batch, and before Spark knew."""
    commits = Path(checkpoint, "commits")
    last = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
    return last


def change(a: int | None, b: str | int | None, v: int | None, diff: int | None) -> Values:
    return {"a": a, "b": b, "v": v, "_diff": diff}


def answer() -> Table:
    """Return DuckDB's answer over the current tables of the shop."""
    with duckdb.connect() as db:
        for alias, name in (("c", "customers"), ("o", "orders"), ("l", "lines")):
            db.register(f"all_{alias}", sj.arrangement(name).toDF().toPandas())
            db.execute(f"CREATE TABLE {alias} AS SELECT * FROM all_{alias}")
        return sorted(db.execute(f"SELECT {', '.join(JOINED)} FROM c, o, l WHERE {CONDITION}").fetchall())


def tables(postgres: Postgres) -> set[str]:
    return {name for (name,) in postgres.query("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")}


def test_a_delta_join_keeps_a_table_current(shop: Shop, database: Postgres) -> None:
    # Another order of columns, one that the join does not have, and names in capitals.
    database.query(
        'CREATE TABLE "Lines" (cents INT, "ID" INT, line INT, customer INT NOT NULL, PRIMARY KEY ("ID", line))'
    )
    target = database.options('"Lines"')
    for number, changes in enumerate(ROUNDS):
        play(shop, changes)
        query = run(joined(), target, ["id", "line"], shop.checkpoint("upsert"))
        found = database.query('SELECT customer, "ID", line, cents FROM "Lines"')
        assert sorted(tuple(map(int, row)) for row in found) == answer(), f"round {number}"
        if number == 0:
            sink = query.recentProgress[0]["sink"]
            assert sink["metrics"] == {"upserts": "1", "deletes": "0", "replayed": "0"}
            assert database.password not in str(sink)
    assert tables(database) == {"Lines", "streamjoin_batches"}, "no staging table is left"


@pytest.mark.parametrize("how", ["left", "full"] if LONG else ["full"])
def test_an_outer_join_has_nulls_in_its_key(shop: Shop, database: Postgres, how: str) -> None:
    database.query("CREATE SCHEMA own; CREATE TABLE own.pairs (customer INT, id INT, UNIQUE (customer, id))")
    on = "c.customer = o.customer AND o.day < 20"
    padded = 0
    for changes in ROUNDS:
        shop.feed("customers", *changes.get("customers", []))
        shop.feed("orders", *changes.get("orders", []))
        shop.arrange("customers", CUSTOMERS, [["customer"]], op="op")
        shop.arrange("orders", ORDERS, [["id"], ["customer"]], op="op")
        df = sj.delta_join({"c": "customers", "o": "orders"}, on, ["c.customer", "o.id"], how=how)
        run(df, database.options("own.pairs"), ["customer", "id"], shop.checkpoint(how))
        with duckdb.connect() as db:
            for alias, name in (("c", "customers"), ("o", "orders")):
                db.register(alias, sj.arrangement(name).toDF().toPandas())
            expected = db.execute(f"SELECT c.customer, o.id FROM c {how} JOIN o ON {on}").fetchall()
        assert sorted(map(tuple, database.query("SELECT * FROM own.pairs"))) == sorted(
            tuple("" if value is None else str(value) for value in row) for row in expected
        )
        padded += any(None in row for row in expected)
    assert padded > 0
    assert database.query("SELECT count(*) FROM own.streamjoin_batches") == [["1"]], "it is beside the target"
    database.query("DROP SCHEMA own CASCADE")


def test_a_batch_that_runs_again_changes_nothing(shop: Shop, database: Postgres) -> None:
    database.query(
        "CREATE TABLE t (a INT PRIMARY KEY, b TEXT, v INT, note TEXT);"
        "CREATE TABLE statements (what TEXT);"
        "CREATE FUNCTION log() RETURNS TRIGGER LANGUAGE plpgsql AS"
        " $$ BEGIN INSERT INTO statements VALUES (TG_OP); RETURN NULL; END $$;"
        "CREATE TRIGGER log AFTER INSERT OR DELETE ON t FOR EACH STATEMENT EXECUTE FUNCTION log()"
    )
    changes = shop.stream("changes", COLUMNS)
    shop.feed("changes", change(1, "x", 1, 1), change(2, "y", 1, 1))

    def again() -> StreamingQuery:
        return run(changes, database.options("t"), "a", shop.checkpoint("t"))

    again()
    # The staging table of the next batch is left behind, as if the driver had died there.
    database.query(
        "UPDATE t SET note = 'mine' WHERE a = 1;"
        "CREATE FUNCTION stop() RETURNS EVENT_TRIGGER LANGUAGE plpgsql AS $$ BEGIN RAISE 'stop'; END $$;"
        "CREATE EVENT TRIGGER stop ON sql_drop WHEN TAG IN ('DROP TABLE') EXECUTE FUNCTION stop()"
    )
    shop.feed("changes", change(1, "x", 1, -1), change(1, "x", 2, 1), change(2, "y", 1, -1))
    again()
    database.query("DROP EVENT TRIGGER stop")
    own = {"t", "statements", "streamjoin_batches"}
    assert len(tables(database) - own) == 1
    # ON CONFLICT updates the row: columns of the target's own stay.
    assert database.query("SELECT * FROM t") == [["1", "x", "2", "mine"]]
    said = database.query("SELECT * FROM statements")
    assert said == [["DELETE"], ["INSERT"]] * 2
    assert forget_commit(shop.checkpoint("t")) == 1
    assert again().recentProgress[0]["sink"]["metrics"] == {"replayed": "1"}
    assert database.query("SELECT * FROM statements") == said
    assert tables(database) == own
    shop.feed("changes", change(3, "z", 3, 1))
    again()
    assert database.query("SELECT a FROM t ORDER BY a") == [["1"], ["3"]]
    ((query, batch),) = database.query("SELECT query, batch FROM streamjoin_batches")
    assert (batch, len(query)) == ("2", 36)


def test_the_target_and_the_checkpoint_have_to_belong_together(shop: Shop, database: Postgres) -> None:
    database.query("CREATE TABLE t (a INT, b TEXT, v INT)")
    changes = shop.stream("changes", COLUMNS)

    def again(checkpoint: str = shop.checkpoint("t")) -> None:
        run(changes, database.options("t"), "a", checkpoint)

    for number in range(3):
        shop.feed("changes", change(number, "x", 1, 1))
    again()
    everything = database.query("SELECT * FROM t ORDER BY a")
    # The database was put back: it lacks a batch.
    database.query("UPDATE streamjoin_batches SET batch = 1")
    shop.feed("changes", change(3, "x", 1, 1))
    refused("STREAMJOIN_UPSERT_BATCH", again, "it lacks changes")
    # The checkpoint was put back: another batch has the number.
    database.query("UPDATE streamjoin_batches SET batch = 3, planned_ms = 1")
    refused("STREAMJOIN_UPSERT_BATCH", again, "was put back to an earlier state")
    database.query("UPDATE streamjoin_batches SET batch = 9")
    refused("STREAMJOIN_UPSERT_BATCH", again, "the target has batch 9")
    assert database.query("SELECT * FROM t ORDER BY a") == everything
    # A new checkpoint is another query, and begins with all of its input.
    again(shop.checkpoint("new"))
    assert database.query("SELECT count(*) FROM t") == [["4"]]
    assert database.query("SELECT count(*) FROM streamjoin_batches") == [["2"]]


TWO_ROWS = [change(1, "x", 1, 1), change(1, "y", 1, 1), change(2, "x", 1, 1)]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (TWO_ROWS, 'more than one row with the key {"a":1} of a'),
        ([change(1, "x", 1, 1), change(1, "x", 1, 1)], 'more than one row with the key {"a":1} of a'),
        ([change(None, "x", 1, 2)], 'more than one row with the key {"a":null} of a'),
        ([change(1, "x", 1, None)], "a null in _diff"),
    ],
)
def test_a_batch_that_cannot_be_leaves_the_target_alone(
    shop: Shop, database: Postgres, wrong: list[Values], said: str
) -> None:
    database.query("CREATE TABLE t (a INT, b TEXT, v INT)")
    changes = shop.stream("changes", COLUMNS)
    shop.feed("changes", change(1, "before", 0, 1))
    shop.feed("changes", change(1, "before", 0, -1), *wrong)

    def again(keys: Any) -> None:
        run(changes, database.options("t"), keys, shop.checkpoint("t"))

    refused("STREAMJOIN_UPSERT", lambda: again("a"), said)
    assert database.query("SELECT * FROM t") == [["1", "before", "0"]]
    assert database.query("SELECT batch FROM streamjoin_batches") == [["0"]]
    if wrong == TWO_ROWS:
        # As the error says; the checkpoint goes on.
        again(["a", "b"])
        assert database.query("SELECT * FROM t ORDER BY a, b") == [["1", "x", "1"], ["1", "y", "1"], ["2", "x", "1"]]


def test_what_is_refused_when_the_query_starts(shop: Shop, database: Postgres) -> None:
    database.query("CREATE TABLE t (a INT, v INT)")
    changes = shop.stream("changes", COLUMNS)
    target = database.options("t")

    def start(df: DataFrame = changes, to: Any = target, keys: Any = "a", mode: str = "append", **more: Any) -> None:
        writer = sj.upsert(df, to, keys, **more).outputMode(mode)
        writer.start(checkpointLocation=shop.checkpoint("refused")).stop()

    without = changes.drop("b")
    start(without)
    refused("STREAMJOIN_UPSERT", start, "the table t has no column b")
    refused("STREAMJOIN_UPSERT", lambda: start(keys="k"), "the key k is no column")
    refused("STREAMJOIN_UPSERT", lambda: start(keys=["a", "A"]), "a column twice")
    refused("STREAMJOIN_UPSERT", lambda: start(keys=["_diff"]), "the key _diff is no column of the rows")
    refused("STREAMJOIN_UPSERT", lambda: start(changes.drop("_diff")), "no column _diff")
    refused("STREAMJOIN_UPSERT", lambda: start(diff="b"), "the column b is STRING")
    refused("STREAMJOIN_UPSERT", lambda: start(changes.withColumn("a", F.create_map("a", "v"))), "MAP<INT, INT>")
    refused("STREAMJOIN_UPSERT", lambda: start(to=database.options("nothing")), "CREATE TABLE nothing (")
    counts = changes.groupBy("a").agg(F.count("*").alias("v"), F.lit(1).alias("_diff"))
    refused("STREAMJOIN_UPSERT", lambda: start(counts, mode="complete"), "complete mode")
    refused("STREAMJOIN_NOT_A_STREAM", lambda: start(shop.spark.range(1)))
    for wrong in ("", {"url": "jdbc:x"}, {"kafka.bootstrap.servers": "x"}, {**target, "topic": ""}.keys(), None):
        refused("STREAMJOIN_WRONG_ARGUMENT", partial(start, to=wrong))
    refused("STREAMJOIN_WRONG_ARGUMENT", lambda: start(keys=[["a"], ["v"]]))
    refused("STREAMJOIN_WRONG_ARGUMENT", lambda: start(keys=[]))

    def plain(**options: str) -> Callable[[], object]:
        writer = without.writeStream.format("streamjoin-upsert").options(**options)
        return lambda: writer.start(checkpointLocation=shop.checkpoint("refused"))

    refused("STREAMJOIN_UPSERT", plain(keys='["a"]'), "no target")
    refused("STREAMJOIN_UPSERT", plain(table="t", **target, keys='["a"]'), "Give one target")
    refused("STREAMJOIN_UPSERT", plain(table="t", fetchsize="1", keys='["a"]'), "fetchsize is none of a table")
    refused("STREAMJOIN_UPSERT", plain(**target), "it has no key")
    refused("STREAMJOIN_OPTION", plain(**target, keys="a"), "a JSON list")
    refused("STREAMJOIN_UPSERT", lambda: without.writeStream.partitionBy("a").format("streamjoin-upsert").start())


def test_an_aggregation_in_update_mode(shop: Shop, database: Postgres) -> None:
    """State goes on behind a batch that is in the target already."""
    database.query("CREATE TABLE t (a INT PRIMARY KEY, total BIGINT)")
    rows = shop.stream("rows", "a INT, v INT")
    totals = rows.groupBy("a").agg(F.sum("v").alias("total")).withColumn("_diff", F.lit(1))

    def again() -> None:
        writer = sj.upsert(totals, database.options("t"), "a").outputMode("update").trigger(availableNow=True)
        writer.start(checkpointLocation=shop.checkpoint("t")).awaitTermination()

    for number in range(3):
        shop.feed("rows", {"a": 1, "v": 10**number}, {"a": number, "v": 1000})
        again()
        if number == 1:
            forget_commit(shop.checkpoint("t"))
            again()
    assert database.query("SELECT * FROM t ORDER BY a") == [["0", "1000"], ["1", "1111"], ["2", "1000"]]


def test_many_tasks_and_a_limit_of_connections(shop: Shop, database: Postgres) -> None:
    database.query("CREATE TABLE t (a INT PRIMARY KEY, b TEXT, v INT)")
    changes = shop.stream("changes", COLUMNS)
    shop.feed("changes", *[change(number, "x", number, 1) for number in range(500)])
    shop.feed("changes", *[change(number, "x", number, -1) for number in range(0, 500, 2)])
    run(changes, database.options("t") | {"numPartitions": "1", "batchsize": "7"}, "a", shop.checkpoint("t"))
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
def test_random_changes(shop: Shop, database: Postgres, create: str) -> None:
    database.query(f"CREATE TABLE t ({create})")
    seconds = [None, "x", "y", "'\"`"]
    _check_random(shop, database.options("t"), lambda: of_postgres(database), seconds, COLUMNS)


def test_random_changes_in_standard_sql(shop: Shop, spark: SparkSession) -> None:
    """Derby has neither ON CONFLICT nor IF EXISTS."""
    url = f"jdbc:derby:memory:upsert{os.getpid()}"
    target = {"url": url + ";create=true", "dbtable": "t", "driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver"}
    jvm: Any = spark._jvm
    connection = jvm.java.sql.DriverManager.getConnection(target["url"])
    connection.createStatement().execute('CREATE TABLE t ("a" INT, "b" INT, "v" INT)')
    connection.close()

    def read() -> Table:
        return in_order([tuple(row) for row in spark.read.format("jdbc").options(**target).load().collect()])

    # Spark writes a null text into a CLOB of Derby, and a CLOB cannot be compared.
    _check_random(shop, target, read, [None, 7, 8], COLUMNS.replace("STRING", "INT"))
    spark.read.format("jdbc").options(**target | {"dbtable": "streamjoin_batches"}).load().collect()


def _check_random(
    shop: Shop, target: dict[str, str], read: Read, seconds: Sequence[str | int | None], columns: str
) -> None:
    seed = int(os.environ.get("STREAMJOIN_SEED", random.randrange(1_000_000)))
    print(f"STREAMJOIN_SEED={seed}")
    made = Random(seed, seconds)
    changes = shop.stream("changes", columns)
    for _ in range(12 if LONG else 3):
        for _ in range(made.chance.randrange(1, 5)):
            shop.feed("changes", *made.batch())
        run(changes, target, ["a", "b"], shop.checkpoint("t"))
        assert read() == made.expected()
        if made.chance.random() < 0.5:
            forget_commit(shop.checkpoint("t"))
            run(changes, target, ["a", "b"], shop.checkpoint("t"))
            assert read() == made.expected()


def test_killed_between_the_target_and_sparks_commit(postgres: Postgres, tmp_path: Path) -> None:
    """The database makes the driver wait after the transaction of each batch, and the test kills it there."""
    postgres.query(
        "DROP SCHEMA public CASCADE; CREATE SCHEMA public;"
        "CREATE TABLE t (a INT PRIMARY KEY, v INT);"
        "CREATE TABLE applied (batch BIGINT);"
        "CREATE FUNCTION note() RETURNS TRIGGER LANGUAGE plpgsql AS"
        " $$ BEGIN INSERT INTO applied SELECT max(batch) FROM streamjoin_batches; RETURN NULL; END $$;"
        "CREATE TRIGGER note AFTER INSERT ON t FOR EACH STATEMENT EXECUTE FUNCTION note();"
        "CREATE FUNCTION wait() RETURNS EVENT_TRIGGER LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(3); END $$;"
        "CREATE EVENT TRIGGER wait ON sql_drop WHEN TAG IN ('DROP TABLE') EXECUTE FUNCTION wait()"
    )
    batches = 4 if LONG else 3
    options = [f"--{name}={value}" for name, value in postgres.options("t").items()]
    job = ROOT / "tests" / "jobs" / "upsert_job.py"
    command = spark_submit(job, f"--work={tmp_path}", f"--batches={batches}", *options, jars=[driver_jar(TOOLS)])

    def recorded() -> int:
        try:
            found = postgres.query("SELECT batch FROM streamjoin_batches")
        except subprocess.CalledProcessError:  # until the first batch
            return -1
        return int(found[0][0]) if found else -1

    def committed() -> int:
        numbers = [int(file.name) for file in tmp_path.glob("checkpoint/commits/[0-9]*")]
        return max(numbers, default=-1)

    for _ in range(2 if LONG else 1):
        before = recorded()
        with (tmp_path / "log").open("ab") as log:
            process = subprocess.Popen(command, env=environment(), stdout=log, stderr=log, start_new_session=True)
        try:
            deadline = time.monotonic() + 240
            while recorded() <= before:
                assert process.poll() is None and time.monotonic() < deadline, (tmp_path / "log").read_text()[-5000:]
                time.sleep(0.02)
        finally:
            kill_group(process)
        assert committed() == recorded() - 1, "the target is one batch ahead"
    postgres.query("DROP EVENT TRIGGER wait")
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert recorded() == committed() == batches - 1
    assert postgres.query("SELECT batch, count(*) FROM applied GROUP BY batch ORDER BY batch") == [
        [str(number), "1"] for number in range(batches)
    ]
    # Batch n has n in the rows 0 to n, and removes row n - 1.
    assert postgres.query("SELECT a, v FROM t ORDER BY a") == [
        [str(number), str(batches - 1)] for number in range(batches) if number != batches - 2
    ]
    left = {name for (name,) in postgres.query("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")}
    assert left == {"t", "applied", "streamjoin_batches"}


def test_the_query_fails_with_what_the_database_says(shop: Shop, database: Postgres) -> None:
    database.query("CREATE TABLE t (a INT PRIMARY KEY, b TEXT, v INT CHECK (v < 5))")
    changes = shop.stream("changes", COLUMNS)
    shop.feed("changes", change(1, "x", 1, 1))
    shop.feed("changes", change(1, "x", 1, -1), change(1, "x", 9, 1), change(2, "x", 2, 1))
    with pytest.raises(StreamingQueryException, match="t_v_check") as caught:
        run(changes, database.options("t"), "a", shop.checkpoint("t"))
    assert database.password not in str(caught.value)
    assert database.query("SELECT * FROM t") == [["1", "x", "1"]]
    assert database.query("SELECT batch FROM streamjoin_batches") == [["0"]]
    assert tables(database) == {"t", "streamjoin_batches"}
    database.query("ALTER TABLE t DROP CONSTRAINT t_v_check")
    run(changes, database.options("t"), "a", shop.checkpoint("t"))
    assert database.query("SELECT * FROM t ORDER BY a") == [["1", "x", "9"], ["2", "x", "2"]]


def hook(tag: str, body: str) -> str:
    """Return SQL that runs a body with each statement of a kind; ``made.object_identity`` is its table."""
    return (
        "CREATE FUNCTION hook() RETURNS EVENT_TRIGGER LANGUAGE plpgsql AS $$ DECLARE made RECORD; BEGIN"
        f" FOR made IN SELECT * FROM pg_event_trigger_ddl_commands() LOOP {body} END LOOP; END $$;"
        f"CREATE EVENT TRIGGER hook ON ddl_command_end WHEN TAG IN ('{tag}') EXECUTE FUNCTION hook()"
    )


def test_rows_of_an_attempt_that_does_not_count(shop: Shop, database: Postgres) -> None:
    """A task that failed after it wrote, or ran twice, leaves rows in the staging table."""
    database.query("CREATE TABLE t (a INT PRIMARY KEY, b TEXT, v INT); CREATE TABLE left_over (a INT)")
    stray = (
        "IF EXISTS (SELECT FROM information_schema.columns WHERE column_name = 'streamjoin_attempt') THEN"
        " EXECUTE format('INSERT INTO %s VALUES (1, ''stray'', 0, 0, 5), (9, ''stray'', 0, 1, 6)',"
        " made.object_identity);"
        " INSERT INTO left_over VALUES (1); END IF;"
    )
    database.query(hook("ALTER TABLE", stray))
    changes = shop.stream("changes", COLUMNS)
    shop.feed("changes", change(1, "x", 1, 1))
    shop.feed("changes", change(2, "y", 1, 1))
    run(changes, database.options("t"), "a", shop.checkpoint("t"))
    assert database.query("SELECT count(*) FROM left_over") == [["2"]], "there were such rows in each batch"
    assert database.query("SELECT * FROM t ORDER BY a") == [["1", "x", "1"], ["2", "y", "1"]]


def test_another_driver_at_the_same_batch(shop: Shop, database: Postgres) -> None:
    database.query(
        "CREATE TABLE t (a INT, b TEXT, v INT);"
        "CREATE FUNCTION nothing() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$"
    )
    changes = shop.stream("changes", COLUMNS)
    shop.feed("changes", change(1, "x", 1, 1))
    run(changes, database.options("t"), "a", shop.checkpoint("t"))
    shop.feed("changes", change(2, "y", 1, 1))

    def again() -> None:
        run(changes, database.options("t"), "a", shop.checkpoint("t"))

    # It has recorded the batch since this one looked: the update finds no row.
    database.query("CREATE TRIGGER nothing BEFORE UPDATE ON streamjoin_batches FOR EACH ROW EXECUTE FUNCTION nothing()")
    refused("STREAMJOIN_UPSERT_BATCH", again, "another run of the query")
    database.query("DROP TRIGGER nothing ON streamjoin_batches")
    # It has made its own staging table of the same name.
    lost = "CREATE TRIGGER nothing BEFORE INSERT ON %s FOR EACH ROW EXECUTE FUNCTION nothing()"
    database.query(hook("CREATE TABLE AS", f"EXECUTE format('{lost}', made.object_identity);"))
    refused("STREAMJOIN_UPSERT_BATCH", again, "has 0 of the 1 rows")
    assert database.query("SELECT a FROM t") == [["1"]]
    database.query("DROP EVENT TRIGGER hook")
    again()
    assert database.query("SELECT a FROM t ORDER BY a") == [["1"], ["2"]]


def test_types_that_spark_writes_as_text(shop: Shop, database: Postgres) -> None:
    database.query("CREATE TABLE t (a INT PRIMARY KEY, b UUID, v INT)")
    target = database.options("t")
    target["url"] += "?stringtype=unspecified"
    changes = shop.stream("changes", COLUMNS)
    first = "00000000-0000-0000-0000-000000000001"
    shop.feed("changes", change(1, first, 1, 1), change(2, None, 1, 1))
    shop.feed("changes", change(1, first, 1, -1), change(1, None, 1, 1), change(2, None, 1, -1), change(2, first, 1, 1))
    run(changes, target, "a", shop.checkpoint("t"))
    assert database.query("SELECT * FROM t ORDER BY a") == [["1", "", "1"], ["2", first, "1"]]
