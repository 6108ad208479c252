"""Upserts into PostgreSQL, each batch once: batches that run again, drivers that die, targets of other queries."""

import subprocess
from pathlib import Path

import pytest
from arranged_shop import Shop
from conftest import LONG, ROOT, TOOLS, rejected
from processes import Job
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812
from queries import Values
from servers.jdbc_drivers import POSTGRES, driver_jar
from servers.postgres import Postgres
from spark_submit import environment, spark_submit
from upserts import Kept, change, forget_commit, tables

import streamjoin as sj


def test_a_batch_that_runs_again_changes_nothing(kept: Kept, database: Postgres) -> None:
    database.query(
        "CREATE TABLE t (a INT PRIMARY KEY, b TEXT, v INT, note TEXT);"
        "CREATE TABLE statements (what TEXT);"
        "CREATE FUNCTION log() RETURNS TRIGGER LANGUAGE plpgsql AS"
        " $$ BEGIN INSERT INTO statements VALUES (TG_OP); RETURN NULL; END $$;"
        "CREATE TRIGGER log AFTER INSERT OR DELETE ON t FOR EACH STATEMENT EXECUTE FUNCTION log()"
    )
    kept.feed(change(1, "x", 1, 1), change(2, "y", 1, 1))
    kept.run()
    # The staging table of the next batch is left behind, as if the driver had died there.
    database.query(
        "UPDATE t SET note = 'mine' WHERE a = 1;"
        "CREATE FUNCTION stop() RETURNS EVENT_TRIGGER LANGUAGE plpgsql AS $$ BEGIN RAISE 'stop'; END $$;"
        "CREATE EVENT TRIGGER stop ON sql_drop WHEN TAG IN ('DROP TABLE') EXECUTE FUNCTION stop()"
    )
    kept.feed(change(1, "x", 1, -1), change(1, "x", 2, 1), change(2, "y", 1, -1))
    kept.run()
    database.query("DROP EVENT TRIGGER stop")
    own = {"t", "statements", "streamjoin_batches"}
    # What start() tried is left behind, too.
    left = tables(database) - own
    assert len([table for table in left if not table.endswith("_start")]) == 1
    for table in left:
        if table.endswith("_start"):
            database.query(f"DROP TABLE {table}")
    # ON CONFLICT updates the row: columns of the target's own stay.
    assert database.query("SELECT * FROM t") == [["1", "x", "2", "mine"]]
    said = database.query("SELECT * FROM statements")
    assert said == [["DELETE"], ["INSERT"]] * 2
    assert forget_commit(kept.checkpoint) == 1
    assert kept.run().recentProgress[0]["sink"]["metrics"] == {"replayed": "1"}
    assert database.query("SELECT * FROM statements") == said
    assert tables(database) == own
    kept.feed(change(3, "z", 3, 1))
    kept.run()
    assert database.query("SELECT a FROM t ORDER BY a") == [["1"], ["3"]]
    ((query, batch),) = database.query("SELECT query, batch FROM streamjoin_batches")
    assert (batch, len(query)) == ("2", 36)


def test_the_target_and_the_checkpoint_have_to_belong_together(shop: Shop, kept: Kept, database: Postgres) -> None:
    database.query("CREATE TABLE t (a INT, b TEXT, v INT)")
    for number in range(3):
        kept.feed(change(number, "x", 1, 1))
    kept.run()
    everything = database.query("SELECT * FROM t ORDER BY a")
    # The database was restored: it lacks a batch.
    database.query("UPDATE streamjoin_batches SET batch = 1")
    kept.feed(change(3, "x", 1, 1))
    rejected("STREAMJOIN_UPSERT_BATCH.TARGET_RESTORED", kept.run, "it lacks changes")
    # The checkpoint was restored: another batch has the number.
    database.query("UPDATE streamjoin_batches SET batch = 3, planned_ms = 1")
    rejected("STREAMJOIN_UPSERT_BATCH.CHECKPOINT_RESTORED", kept.run, "was restored to an earlier state")
    database.query("UPDATE streamjoin_batches SET batch = 9")
    rejected("STREAMJOIN_UPSERT_BATCH.CHECKPOINT_RESTORED", kept.run, "the target has batch 9")
    assert database.query("SELECT * FROM t ORDER BY a") == everything
    # A new checkpoint is another query, and begins with all of its input.
    kept.run(checkpoint=shop.checkpoint("new"))
    assert database.query("SELECT count(*) FROM t") == [["4"]]
    assert database.query("SELECT count(*) FROM streamjoin_batches") == [["2"]]


def test_a_table_that_was_created_again_without_its_rows(kept: Kept, database: Postgres) -> None:
    create = "CREATE TABLE t (a INT PRIMARY KEY, b TEXT, v INT)"
    database.query(create)

    def batch(*rows: Values) -> list[list[str]]:
        kept.feed(*rows)
        kept.run()
        return database.query("SELECT a FROM t ORDER BY a")

    batch(change(1, "x", 1, 1), change(2, "x", 2, 1))
    # Another table has taken its place, with its rows.
    database.query("CREATE TABLE u AS SELECT * FROM t; DROP TABLE t; ALTER TABLE u RENAME TO t")
    batch(change(1, "x", 1, -1))
    # Changes removed all rows.
    assert batch(change(2, "x", 2, -1)) == []
    database.query(f"DROP TABLE t; {create}")
    assert batch(change(3, "x", 3, 1)) == [["3"]]
    # Somebody else removed them.
    database.query("DELETE FROM t")
    assert batch(change(4, "x", 4, 1)) == [["4"]]
    # A batch that changes nothing is no exception.
    batch(change(5, "x", 5, 1), change(5, "x", 5, -1))
    database.query(f"DROP TABLE t; {create}")
    last = change(6, "x", 6, 1)
    rejected("STREAMJOIN_UPSERT_BATCH.CREATED_AGAIN", lambda: batch(last), "was created again after that batch")
    assert database.query("SELECT * FROM t") == []


def test_an_aggregation_in_update_mode(shop: Shop, database: Postgres) -> None:
    """State continues after a batch that is in the target already."""
    database.query("CREATE TABLE t (a INT PRIMARY KEY, total BIGINT)")
    rows = shop.stream("rows", "a INT, v INT")
    totals = rows.groupBy("a").agg(F.sum("v").alias("total")).withColumn("_diff", F.lit(1))

    def again() -> None:
        shop.finish(sj.upsert(totals, database.options("t"), "a").outputMode("update"), "t")

    for number in range(3):
        shop.feed("rows", {"a": 1, "v": 10**number}, {"a": number, "v": 1000})
        again()
        if number == 1:
            forget_commit(shop.checkpoint("t"))
            again()
    assert database.query("SELECT * FROM t ORDER BY a") == [["0", "1000"], ["1", "1111"], ["2", "1000"]]


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
    file = ROOT / "tests" / "jobs" / "upsert_job.py"
    more = [f"--work={tmp_path}", f"--batches={batches}", *options]
    job = Job(spark_submit(file, *more, jars=[driver_jar(TOOLS, POSTGRES)]), tmp_path / "log", environment())

    def recorded() -> int:
        try:
            found = postgres.query("SELECT batch FROM streamjoin_batches")
        except subprocess.CalledProcessError:  # until the first batch
            return -1
        return int(found[0][0]) if found else -1

    def committed() -> int:
        numbers = [int(file.name) for file in tmp_path.glob("checkpoint/commits/[0-9]*")]
        return max(numbers, default=-1)

    def kill_after_a_batch() -> None:
        before = recorded()
        assert job.kill(lambda: recorded() > before), job.said()
        assert committed() == recorded() - 1, "the target is one batch ahead"

    for _ in range(2 if LONG else 1):
        kill_after_a_batch()
    postgres.query("DROP EVENT TRIGGER wait")
    job.finish()
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


def test_the_query_fails_with_what_the_database_says(kept: Kept, database: Postgres) -> None:
    database.query("CREATE TABLE t (a INT PRIMARY KEY, b TEXT, v INT CHECK (v < 5))")
    kept.feed(change(1, "x", 1, 1))
    kept.feed(change(1, "x", 1, -1), change(1, "x", 9, 1), change(2, "x", 2, 1))
    with pytest.raises(StreamingQueryException, match="t_v_check") as caught:
        kept.run()
    assert database.password not in str(caught.value)
    assert database.query("SELECT * FROM t") == [["1", "x", "1"]]
    assert database.query("SELECT batch FROM streamjoin_batches") == [["0"]]
    assert tables(database) == {"t", "streamjoin_batches"}
    database.query("ALTER TABLE t DROP CONSTRAINT t_v_check")
    kept.run()
    assert database.query("SELECT * FROM t ORDER BY a") == [["1", "x", "9"], ["2", "x", "2"]]


def hook(tag: str, body: str) -> str:
    """Return SQL that runs a body with each statement of a kind; ``made.object_identity`` is its table."""
    return (
        "CREATE FUNCTION hook() RETURNS EVENT_TRIGGER LANGUAGE plpgsql AS $$ DECLARE made RECORD; BEGIN"
        f" FOR made IN SELECT * FROM pg_event_trigger_ddl_commands() LOOP {body} END LOOP; END $$;"
        f"CREATE EVENT TRIGGER hook ON ddl_command_end WHEN TAG IN ('{tag}') EXECUTE FUNCTION hook()"
    )


def test_rows_of_an_attempt_that_does_not_count(kept: Kept, database: Postgres) -> None:
    """A task that failed after it wrote, or ran twice, leaves rows in the staging table."""
    database.query("CREATE TABLE t (a INT PRIMARY KEY, b TEXT, v INT); CREATE TABLE left_over (a INT)")
    stray = (
        # What start() tries has fewer columns.
        "IF (SELECT count(*) FROM pg_attribute WHERE attrelid = made.objid AND attnum > 0) = 5 THEN"
        " EXECUTE format('INSERT INTO %s VALUES (1, ''stray'', 0, 0, 5), (9, ''stray'', 0, 1, 6)',"
        " made.object_identity);"
        " INSERT INTO left_over VALUES (1); END IF;"
    )
    database.query(hook("CREATE TABLE AS", stray))
    kept.feed(change(1, "x", 1, 1))
    kept.feed(change(2, "y", 1, 1))
    kept.run()
    assert database.query("SELECT count(*) FROM left_over") == [["2"]], "there were such rows in each batch"
    assert database.query("SELECT * FROM t ORDER BY a") == [["1", "x", "1"], ["2", "y", "1"]]


def test_another_driver_at_the_same_batch(kept: Kept, database: Postgres) -> None:
    database.query(
        "CREATE TABLE t (a INT, b TEXT, v INT);"
        "CREATE FUNCTION nothing() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$"
    )
    kept.feed(change(1, "x", 1, 1))
    kept.run()
    kept.feed(change(2, "y", 1, 1))
    # It has recorded the batch since this one looked: the update finds no row.
    database.query("CREATE TRIGGER nothing BEFORE UPDATE ON streamjoin_batches FOR EACH ROW EXECUTE FUNCTION nothing()")
    rejected("STREAMJOIN_UPSERT_BATCH.ANOTHER_RUN", kept.run, "another run of the query")
    database.query("DROP TRIGGER nothing ON streamjoin_batches")
    # It has made its own staging table of the same name.
    lost = "CREATE TRIGGER nothing BEFORE INSERT ON %s FOR EACH ROW EXECUTE FUNCTION nothing()"
    database.query(hook("CREATE TABLE AS", f"EXECUTE format('{lost}', made.object_identity);"))
    rejected("STREAMJOIN_UPSERT_BATCH.STAGING", kept.run, "contains 0 of the 1 rows")
    assert database.query("SELECT a FROM t") == [["1"]]
    database.query("DROP EVENT TRIGGER hook")
    kept.run()
    assert database.query("SELECT a FROM t ORDER BY a") == [["1"], ["2"]]
