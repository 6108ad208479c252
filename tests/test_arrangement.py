"""Arrangements as a Python user sees them: from change files to tables at a version."""

import shutil
from collections import Counter
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from arranged_shop import ORDERS, Shop, order, rows_of
from conftest import rejected
from py4j.protocol import Py4JJavaError
from pyspark.errors import SparkRuntimeException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from queries import Values, finish, settings, write_file

import streamjoin as sj


@pytest.fixture
def orders(shop: Shop) -> sj.Arrangement:
    """Return an arrangement with one order, at one version."""
    shop.feed("orders", order(1, 7, 1))
    shop.arrange("orders", ORDERS, [["id"]], op="op")
    return sj.arrangement("orders")


def test_a_changelog_at_each_version(shop: Shop) -> None:
    shop.feed("orders", order(1, 7, 1), order(2, 7, op="c"))
    shop.feed("orders", order(1, 8, 1, "update"))
    shop.feed("orders", order(2, op="delete"), order(3, None, 5, "Insert"))
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


def test_changes_as_a_stream_that_continues(shop: Shop) -> None:
    seen: list[list[tuple[Any, ...]]] = []
    shop.feed("orders", order(1, 7, 1), order(2, 7))
    shop.arrange("orders", ORDERS, [["id"]], op="op")
    changes = sj.arrangement("orders").changes()
    assert changes.isStreaming
    assert changes.columns == ["id", "customer", "day", "_version", "_diff"]
    shop.run(changes, "changes", lambda batch, _: seen.append(rows_of(batch.select("id", "_version", "_diff"))))
    shop.feed("orders", order(1, 9, 1, "update"))
    shop.feed("orders", order(2, op="delete"))
    shop.arrange("orders", ORDERS, [["id"]], op="op")
    # It continues from its checkpoint.
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
    expected = [[(1, "Ada"), (2, "Eve")], [(1, "Ann"), (2, "Eve")], [(1, "Ann")]]
    assert [rows_of(names.toDF(version)) for version in range(3)] == expected


def test_the_rows_of_a_key_follow_each_other_by_time(shop: Shop) -> None:
    shop.feed(
        "names",
        {"id": 1, "name": "third", "at": 3, "op": "u"},
        {"id": 1, "name": "first", "at": 1, "op": "c"},
        {"id": 1, "name": "second", "at": 2, "op": "u"},
    )
    shop.arrange("names", "id INT, name STRING, at INT, op STRING", [["id"]], op="op", time="at")
    assert rows_of(sj.arrangement("names").toDF()) == [(1, "third", 3)]


def test_an_older_change_in_a_later_batch_does_not_count(shop: Shop) -> None:
    row = "STRUCT<id: INT, name: STRING>"
    schema = f"before {row}, after {row}, op STRING, ts_ms BIGINT, lsn BIGINT"
    ada, eve, bob = {"id": 1, "name": "Ada"}, {"id": 2, "name": "Eve"}, {"id": 3, "name": "Bob"}
    # A transaction with an insert and a delete; a tombstone has only its place in the log.
    shop.feed(
        "names", {"op": "c", "after": ada, "ts_ms": 1, "lsn": 1}, {"op": "d", "before": ada, "ts_ms": 1, "lsn": 2}
    )
    shop.feed("names", {"lsn": 3}, {"op": "c", "after": eve, "ts_ms": 5, "lsn": 4})
    shop.feed("names", {"op": "u", "before": eve, "after": eve | {"name": "Ida"}, "ts_ms": 4, "lsn": 3})
    shop.feed("names", {"op": "c", "after": ada, "ts_ms": 1, "lsn": 1})
    shop.feed("names", {"op": "u", "before": eve, "after": bob, "ts_ms": 6, "lsn": 5})
    stream = shop.stream("names", schema)
    with settings(shop.spark, {"spark.streamjoin.lateRows": "keep"}):
        writer = sj.arrange(stream, "names", [["id"], ["name"]], op="op", time="ts_ms", order="lsn")
        query = shop.finish(writer, "names")
    names = sj.arrangement("names").toDF
    expected = [[], *[[(2, "Eve")]] * 3, [(3, "Bob")]]
    assert [rows_of(names(version).select("id", "name")) for version in range(5)] == expected
    metrics = [progress.sink.metrics for progress in query.recentProgress if progress.sink.metrics]
    assert (metrics[-1]["olderChanges"], metrics[-1]["tombstones"]) == ("2", "1")
    assert metrics[-1]["updatesOfUnknownKeys"] == "0", "a row that moves is known"
    late = sj.late_rows(query).select("batch", "column", F.get_json_object("row", "$.name")).collect()
    assert sorted(late) == [(2, "ts_ms", "Ida"), (3, "ts_ms", "Ada")]


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


def test_the_time_of_an_update_is_not_part_of_the_row(shop: Shop) -> None:
    shop.feed("stock", {"item": "cup", "Updated": 1, "n": 1})
    shop.feed("stock", {"item": "cup", "Updated": 2, "n": -1})
    shop.arrange("stock", "item STRING, Updated INT, n INT", [["item"]], diff="n", time="updated")
    assert sj.arrangement("stock").schema.names == ["item"]
    assert rows_of(sj.arrangement("stock").toDF()) == []


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
    shop.feed("names", row("insert", 4, "Bob"), row("insert", 5, "Mia"))
    # One row moves to a free key, two swap their keys.
    moved = [("update_preimage", 1, "Ann"), ("update_postimage", 3, "Ann")]
    moved += [("update_preimage", 4, "Bob"), ("update_postimage", 5, "Bob")]
    moved += [("update_preimage", 5, "Mia"), ("update_postimage", 4, "Mia")]
    shop.feed("names", *(row(*change) for change in moved))
    schema = "id INT, name STRING, _change_type STRING, _commit_version BIGINT"
    changes = shop.stream("names", schema).drop("_commit_version")
    shop.finish(sj.arrange(changes, "names", [["id"]], op="_change_type"), "names")
    names = sj.arrangement("names")
    assert rows_of(names.toDF(1)) == [(1, "Ann")]
    assert rows_of(names.toDF()) == [(3, "Ann"), (4, "Mia"), (5, "Bob")]


def test_an_aggregation_in_update_mode_is_a_changelog(shop: Shop) -> None:
    for number in range(4):
        shop.feed("orders", {"id": number, "customer": number % 3, "day": 1})
    orders = shop.stream("orders", "id INT, customer INT, day INT")
    counts = orders.groupBy("customer").count().withColumn("op", F.lit("update"))
    shop.finish(sj.arrange(counts, "counts", [["customer"]], op="op").outputMode("update"), "counts")
    found = sj.arrangement("counts")
    assert rows_of(found.toDF()) == [(0, 2), (1, 1), (2, 1)]
    assert rows_of(found.toDF(2)) == [(0, 1), (1, 1), (2, 1)]
    # Without an operation, a customer's old count would stay next to the new one.
    added = sj.arrange(counts.drop("op"), "added", [["customer"]]).outputMode("update")
    rejected("STREAMJOIN_ARRANGEMENT_OUTPUT_MODE.UPDATE", lambda: shop.finish(added, "added"))


def test_the_arrangements_of_a_folder_in_sql(shop: Shop) -> None:
    assert shop.spark.sql("SELECT * FROM sj_arrangements()").collect() == []
    shop.feed("orders", order(1, 7, 1))
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


def test_readers_and_how_far_behind_they_are(shop: Shop, orders: sj.Arrangement) -> None:
    shop.run(orders.changes(), "reader", lambda batch, _: None)
    (before,) = orders.readers
    assert (before.version, before.versions_behind) == (0, 0)
    assert before.name is None and len(before.id) == 8, "the checkpoint is nobody else's business"
    for day in range(2, 4):
        shop.feed("orders", order(1, 7, day, "update"))
    shop.arrange("orders", ORDERS, [["id"]], op="op")
    (after,) = orders.readers
    assert (after.id, after.version, after.versions_behind) == (before.id, 0, 2)
    shown = orders._repr_html_()
    assert "<th>versions</th><td>0 to 2</td>" in shown and "<td>version 0, 2 behind</td>" in shown
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
    shop.finish(sj.arrange(shop.stream("visits", "page STRING"), path, [["page"]]), "visits")
    assert sj.arrangement(path).rows == 1


def test_the_progress_of_a_maintaining_query(shop: Shop) -> None:
    shop.feed("orders", order(1, 7, 1, "update"), order(2, op="delete"))
    query = shop.finish(sj.arrange(shop.stream("orders", ORDERS), "orders", [["id"]], op="op"), "orders")
    (progress,) = (each for each in query.recentProgress if each.sink.metrics)
    metrics = progress.sink.metrics
    assert (metrics["version"], metrics["since"], metrics["rows"]) == ("0", "0", "1")
    assert (metrics["updatesOfUnknownKeys"], metrics["deletesOfUnknownKeys"]) == ("1", "1")
    assert int(metrics["changeBytes"]) > 0


def test_an_unknown_key_counts_once(shop: Shop) -> None:
    changes = [("update_postimage", "Ada", 1), ("update_preimage", "Ada", 2), ("update_postimage", "Ann", 2)]
    shop.feed("names", *({"id": 1, "name": name, "at": at, "op": op} for op, name, at in changes))
    stream = shop.stream("names", "id INT, name STRING, at INT, op STRING")
    query = shop.finish(sj.arrange(stream, "names", [["id"]], op="op", time="at"), "names")
    (metrics,) = (each.sink.metrics for each in query.recentProgress if each.sink.metrics)
    assert metrics["updatesOfUnknownKeys"] == "1"
    assert rows_of(sj.arrangement("names").toDF()) == [(1, "Ann", 2)]


def test_what_cannot_be_arranged(shop: Shop) -> None:
    stream = shop.stream("orders", ORDERS)

    def arrange(df: Any = stream, keys: Any = (["id"],), **options: Any) -> Any:
        return lambda: sj.arrange(df, "orders", keys, **options)

    rejected("STREAMJOIN_WRONG_ARGUMENT", arrange(keys=["id", ["day"]]), 'keys=[["order_id"]')
    for keys in (None, 7, [[1]], [None]):
        rejected("STREAMJOIN_WRONG_ARGUMENT", arrange(keys=keys), "a list of columns")
    rejected("STREAMJOIN_WRONG_ARGUMENT", arrange(op=1), "op")
    rejected("STREAMJOIN_WRONG_ARGUMENT", lambda: sj.arrange(stream, " ", [["id"]]), "name")
    rejected("STREAMJOIN_WRONG_ARGUMENT", lambda: sj.arrange(stream, 7, [["id"]]), "name")  # type: ignore[arg-type]
    rejected("STREAMJOIN_WRONG_ARGUMENT", lambda: sj.arrange("orders", "orders", [["id"]]))  # type: ignore[arg-type]
    rejected("STREAMJOIN_NOT_A_STREAM.ARRANGE", arrange(shop.spark.range(1)))
    rejected("STREAMJOIN_ARRANGE.NO_KEY", arrange(keys=[]), "keys= is empty")
    rejected("STREAMJOIN_ARRANGE.KEY_TWICE", arrange(keys=[["id"], ["id"]]), "twice")
    rejected("STREAMJOIN_ARRANGE.UNKNOWN_COLUMN", arrange(keys=[["key"]]), "`key`, which is not a column")
    rejected("STREAMJOIN_ARRANGE.OP_WITH_DIFF", arrange(op="op", diff="day"), "exclude each other")
    rejected("STREAMJOIN_ARRANGE.OPERATION_TYPE", arrange(op="day"), "must be a string")
    rejected("STREAMJOIN_ARRANGE.DIFF_TYPE", arrange(diff="op"), "must be a whole number")
    rejected("STREAMJOIN_ARRANGE.UNKNOWN_COLUMN", arrange(op="operation"))
    rejected("STREAMJOIN_ARRANGE.UNKNOWN_COLUMN", arrange(op="op", time="moment"))
    rejected("STREAMJOIN_ARRANGE.ORDER_WITHOUT_OP", arrange(order="day"), "Add op=")
    rejected("STREAMJOIN_ARRANGE.UNKNOWN_COLUMN", arrange(op="op", time="day", order="moment"), "order= names `moment`")
    rejected("STREAMJOIN_WRONG_ARGUMENT", arrange(op="op", time="day", order=7), "order")
    rejected("STREAMJOIN_ARRANGE.UNKNOWN_COLUMN", arrange(diff="day", time="moment"))
    rejected("STREAMJOIN_ARRANGE.TTL_WITHOUT_TIME", arrange(op="op", ttl="30 days"), "Add time=")
    rejected("STREAMJOIN_ARRANGE.TTL_TYPE", arrange(op="op", time="day", ttl="30 days"), "a TIMESTAMP")
    rejected("STREAMJOIN_DURATION", arrange(op="op", time="day", ttl="1 month"), "write it in days")
    rejected("STREAMJOIN_DURATION", arrange(op="op", time="day", ttl=timedelta(0)), "too short")
    joined = stream.withColumns({"_time": F.lit(1), "_diff": F.lit(1)})
    rejected("STREAMJOIN_ARRANGE.CHANGE_TIME_IN_ROW", arrange(joined, diff="_diff"), 'time="_time"')
    elsewhere = sj.arrange(stream, "orders", [["id"]], op="op").option("path", "others")
    rejected("STREAMJOIN_ARRANGE.OTHER_TARGET", lambda: shop.finish(elsewhere, "orders"), "others")
    rejected("STREAMJOIN_ARRANGE.RESERVED_COLUMN", arrange(stream.withColumn("_diff", F.lit(1))), "_diff")
    rejected("STREAMJOIN_ARRANGE.KEY_TYPE", arrange(stream.withColumn("id", F.expr("map(id, id)"))), "Maps")
    shop.spark.conf.unset("spark.streamjoin.arrangements")
    rejected("STREAMJOIN_NO_ARRANGEMENTS_FOLDER", arrange())


def test_release_and_drop(shop: Shop, orders: sj.Arrangement) -> None:
    stream = orders.changes().writeStream.format("noop")
    for name in ("one", "two"):
        shop.finish(stream.queryName(name), name)
    one, two = sorted(orders.readers)
    assert (one.name, two.name) == ("one", "two")
    rejected("STREAMJOIN_ARRANGEMENT_USED", orders.drop, f"one ({one.id})")
    rejected("STREAMJOIN_NO_READER", lambda: orders.release("nobody's"), "nobody's")
    rejected("STREAMJOIN_WRONG_ARGUMENT", lambda: orders.release(7))  # type: ignore[arg-type]
    orders.release(one)
    assert [reader.name for reader in orders.readers] == [two.name]
    orders.release(two.id)
    orders.drop()
    rejected("STREAMJOIN_NO_ARRANGEMENT", lambda: sj.arrangement("orders"))
    # Its name is free.
    shop.finish(sj.arrange(shop.stream("orders", ORDERS), "orders", [["id"]], op="op"), "again")
    shop.finish(stream, "three")
    sj.arrangement("orders").drop(force=True)
    rejected("STREAMJOIN_NO_ARRANGEMENT", lambda: sj.arrangement("orders"))


def test_an_operation_that_is_none(shop: Shop) -> None:
    shop.feed("orders", order(1, 7, 1, "upsert"))
    rejected("STREAMJOIN_OPERATION", lambda: shop.arrange("orders", ORDERS, [["id"]], op="op"), '"upsert"')


@pytest.mark.usefixtures("orders")
def test_an_arrangement_stays_as_it_began(shop: Shop) -> None:
    stream = shop.stream("orders", ORDERS)

    def start(df: DataFrame, keys: list[list[str]], checkpoint: str = "orders", **options: str) -> Any:
        return lambda: shop.finish(sj.arrange(df, "orders", keys, **options), checkpoint)

    rejected("STREAMJOIN_ARRANGEMENT_CHANGED", start(stream, [["id"], ["day"]], op="op"), "different keys")
    rejected("STREAMJOIN_ARRANGEMENT_CHANGED", start(stream.drop("day"), [["id"]], op="op"), "different columns")
    rejected("STREAMJOIN_ARRANGEMENT_CHANGED", start(stream.drop("op"), [["id"]]), "different input")
    rejected("STREAMJOIN_ARRANGEMENT_CHANGED", start(stream, [["id"]], op="op", time="day"), "different time")
    rejected("STREAMJOIN_ARRANGEMENT_OWNED", start(stream, [["id"]], checkpoint="another", op="op"))
    plain = stream.writeStream.format("streamjoin").option("path", "orders")
    rejected("STREAMJOIN_ARRANGEMENT_SINK", lambda: shop.finish(plain, "plain"))


def test_what_cannot_be_read(shop: Shop, orders: sj.Arrangement) -> None:
    rejected("STREAMJOIN_WRONG_ARGUMENT", lambda: sj.arrangement(None))  # type: ignore[arg-type]
    rejected("STREAMJOIN_WRONG_ARGUMENT", lambda: sj.arrangement(""))
    rejected("STREAMJOIN_NO_ARRANGEMENT", lambda: sj.arrangement("returns"), "returns")
    rejected("STREAMJOIN_NO_ARRANGEMENT", lambda: shop.spark.read.format("streamjoin").load("returns"))
    rejected("STREAMJOIN_NO_ARRANGEMENT", lambda: sj.delta_join({"o": "orders", "r": "returns"}, "o.id = r.id"))
    rejected("STREAMJOIN_NO_VERSION", lambda: orders.toDF(1).collect(), "the newest is 0")
    rejected("STREAMJOIN_OPTION", lambda: orders.toDF(-1).collect(), "version")
    assert rows_of(orders.toDF()) == rows_of(orders.toDF(0)) == [(1, 7, 1)]
    rejected("STREAMJOIN_OPTION", lambda: shop.spark.read.format("streamjoin").load())
    other = "day INT, id INT, customer INT"
    rejected("STREAMJOIN_OPTION", shop.spark.read.format("streamjoin").schema(other).load("orders").collect, "schema")
    changes = shop.spark.readStream.format("streamjoin").schema(other).load("orders")
    rejected("STREAMJOIN_OPTION", lambda: shop.rows(changes, "other"), "schema")
    rejected("STREAMJOIN_WRONG_ARGUMENT", lambda: orders.changes(max_rows_per_trigger=0), "max_rows_per_trigger")
    sql = shop.spark.sql
    rejected("STREAMJOIN_TABLE_FUNCTION.ARGUMENT", lambda: sql("SELECT * FROM sj_arrangements(1)"))
    shop.spark.conf.unset("spark.streamjoin.arrangements")
    rejected("STREAMJOIN_NO_ARRANGEMENTS_FOLDER", lambda: sj.arrangement("orders"))
    rejected("STREAMJOIN_TABLE_FUNCTION.NO_FOLDER", lambda: sql("SELECT * FROM sj_arrangements()"), "is not set")
    assert sj.arrangement(orders.path).rows == 1


def test_a_version_that_is_not_kept(shop: Shop) -> None:
    for day in range(5):
        shop.feed("orders", order(1, 7, day, "update"))
    with settings(shop.spark, {"spark.streamjoin.arrangements.minVersionsToRetain": "2"}):
        shop.arrange("orders", ORDERS, [["id"]], op="op")
    orders = sj.arrangement("orders")
    assert orders.versions == (2, 4)
    assert rows_of(orders.toDF(2)) == [(1, 7, 2)]
    rejected("STREAMJOIN_VERSION_GONE", lambda: orders.toDF(1).collect(), "the oldest is 2")


def test_a_reader_that_stays_away_for_too_long(shop: Shop, orders: sj.Arrangement) -> None:
    read = partial(shop.run, orders.changes(), "reader", lambda batch, _: None)
    read()
    for day in range(2, 6):
        shop.feed("orders", order(1, 7, day, "update"))
    short = {"minVersionsToRetain": "1", "leaseAge": "1ms"}
    with settings(shop.spark, {f"spark.streamjoin.arrangements.{name}": value for name, value in short.items()}):
        shop.arrange("orders", ORDERS, [["id"]], op="op")
    assert orders.readers == []
    rejected("STREAMJOIN_ARRANGEMENT_RETENTION", read, "since version 3")
    shop.run(orders.changes(), "from a new checkpoint", lambda batch, _: None)


@pytest.mark.usefixtures("orders")
def test_a_damaged_arrangement(shop: Shop) -> None:
    folder = shop.folder / "arrangements" / "orders"
    (folder / ".meta.json.crc").unlink(missing_ok=True)
    (folder / "meta.json").write_text("{}")
    rejected("STREAMJOIN_ARRANGEMENT_UNREADABLE", lambda: sj.arrangement("orders"), "meta.json")


def test_an_error_of_reading_is_a_runtime_error_of_sparks(shop: Shop, orders: sj.Arrangement) -> None:
    versions = shop.folder / "arrangements" / "orders" / "versions"
    (versions / ".0.crc").unlink(missing_ok=True)
    (versions / "0").write_text("{}")
    with pytest.raises(SparkRuntimeException) as error:
        shop.spark.read.format("streamjoin").load(orders.path).collect()
    assert error.value.getCondition() == "STREAMJOIN_ARRANGEMENT_UNREADABLE"
    assert error.value.getSqlState() == "XX001"
    parameters = error.value.getMessageParameters()
    assert parameters is not None and parameters["file"].endswith("versions/0")


def test_a_checkpoint_that_was_put_back_to_an_earlier_state(shop: Shop, tmp_path: Path) -> None:
    checkpoint, arrangement = tmp_path / "checkpoint", str(tmp_path / "items")

    def run(name: str) -> None:
        write_file(tmp_path / "in" / f"{name}.json", [{"id": len(name), "name": name}], len(name))
        rows = shop.spark.readStream.schema("id INT, name STRING").json(str(tmp_path / "in"))
        finish(sj.arrange(rows, arrangement, keys=[["id"]]), checkpoint)

    run("a")
    run("bb")
    shutil.copytree(checkpoint, tmp_path / "copy")
    run("ccc")
    shutil.rmtree(checkpoint)
    (tmp_path / "copy").rename(checkpoint)
    for _ in range(2):  # It fails again at each start.
        rejected("STREAMJOIN_ARRANGEMENT_RESTORED.CHECKPOINT", lambda: run("dddd"))
    assert rows_of(shop.spark.read.format("streamjoin").load(arrangement)) == [(1, "a"), (2, "bb"), (3, "ccc")]


def test_a_folder_that_cannot_be_reached_is_named(shop: Shop) -> None:
    rows = shop.spark.readStream.format("rate").load()
    with pytest.raises(Py4JJavaError, match="nosuchstore"):
        sj.arrange(rows, "nosuchstore://bucket/items", keys=[["value"]])
