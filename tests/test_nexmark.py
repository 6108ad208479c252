"""The Nexmark benchmark: its generator, and each variant of each query compared with DuckDB."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest
from conftest import LONG
from nexmark.feeds import FileFeed, events, records
from nexmark.generator import FAR, KINDS, Setting, connect, generate, rows
from nexmark.queries import BY_VARIANT, answer
from nexmark.report import report
from nexmark.running import arrange, create_views, result
from pyspark.sql import SparkSession
from queries import settings

# Twelve seconds of events, so that a window ends before the closing rows.
SETTING = Setting(events=6000, rate=500, in_flight=100, file_events=3000)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(SETTING, tmp_path_factory.mktemp("nexmark"))


@pytest.fixture
def batches(spark: SparkSession) -> Iterator[None]:
    yield
    for kind in (*KINDS, "side"):
        spark.catalog.dropTempView(kind)
    spark.conf.unset("spark.streamjoin.arrangements")


# `make test` runs three queries on streamjoin: a join, one with an aggregation, a delta join.
SHORT = {"q7", "q9", "q23-delta"}
RUNS = [
    (name, engine)
    for name, (_, variant) in BY_VARIANT.items()
    for engine, runs in (("spark", variant.spark), ("ours", variant.ours))
    if runs and (LONG or (engine == "ours" and name in SHORT))
]


def plain(row: Iterable[object]) -> tuple[object, ...]:
    """Return the values with times as seconds: Spark has them in local time, DuckDB in UTC."""
    return tuple(value.timestamp() if isinstance(value, datetime) else value for value in row)


@pytest.mark.usefixtures("batches")
@pytest.mark.parametrize(("name", "engine"), RUNS, ids=[f"{name}-by-{engine}" for name, engine in RUNS])
def test_a_query_has_the_rows_of_duckdb(
    spark: SparkSession, inputs: Path, tmp_path: Path, name: str, engine: str
) -> None:
    query, variant = BY_VARIANT[name]
    feed = FileFeed(inputs, tmp_path / "arrived", query.reads)
    with settings(spark, {"spark.streamjoin.enabled": str(engine == "ours").lower()}):
        create_views(spark, feed, query.reads, inputs)
        running = arrange(spark, variant, feed, inputs, tmp_path)
        found = result(spark, variant, SETTING)
        sink = f"nexmark_{name.replace('-', '_')}_{engine}"
        main = found.writeStream.format("memory").queryName(sink).start()
        for number in range(SETTING.files + 1):
            feed.publish(number)
            for each in (*running, main):
                each.processAllAvailable()
    columns = [column for column in found.columns if not column.startswith("_")]
    emitted: Counter[tuple[object, ...]] = Counter()
    for row in spark.table(sink).collect():
        emitted[plain(row[column] for column in columns)] += row["_diff"] if variant.is_delta else 1
    with connect() as db:
        expected = Counter(map(plain, db.execute(answer(query, SETTING, inputs)).fetchall()))
    assert sum(expected.values()) > 1
    assert +emitted == expected


def test_the_same_setting_gives_the_same_rows(inputs: Path) -> None:
    with connect() as db:
        for kind in KINDS:
            made = db.execute(rows(SETTING, kind, 0, SETTING.events)).fetchall()
            files = f"SELECT * FROM '{inputs}/{kind}/*.parquet' WHERE dateTime < {FAR}"
            assert Counter(db.execute(files).fetchall()) == Counter(made)
        (first,) = db.execute(rows(SETTING, "bid", 4, 5)).fetchall()
    url = "https://auctions.example/69d8e92229"
    assert [*first[:5], first[6]] == [1000, 1001, 3037960, "channel-236", url, "3de2fdde6117d"]
    assert first[5] == datetime(2026, 1, 1, 0, 0, 0, 8000, UTC)


@pytest.fixture
def db(inputs: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with connect() as connection:
        for kind in KINDS:
            files = f"'{inputs}/{kind}/*.parquet'"
            connection.execute(f"CREATE VIEW {kind} AS FROM {files} WHERE dateTime < {FAR}")
        yield connection


PROPORTIONS = {
    "persons of 50 events": ("SELECT count(*) / 120 FROM person", 1, 0),
    "auctions of 50 events": ("SELECT count(*) / 120 FROM auction", 3, 0),
    "bids of 50 events": ("SELECT count(*) / 120 FROM bid", 46, 0),
    "seconds": ("SELECT epoch(max(dateTime) - min(dateTime)) FROM bid", 12, 0.1),
    "bids on hot auctions": ("SELECT avg((auction % 100 = 0)::INT) FROM bid", 0.5, 0.03),
    "bids of hot bidders": ("SELECT avg((bidder % 100 = 1)::INT) FROM bid", 0.76, 0.03),
    "auctions of hot sellers": ("SELECT avg((seller % 100 = 0)::INT) FROM auction", 0.76, 0.06),
    "auctions of a category": ("SELECT avg((category = 10)::INT) FROM auction", 0.2, 0.06),
    "persons of three states": ("SELECT avg((state IN ('OR', 'ID', 'CA'))::INT) FROM person", 0.5, 0.12),
    "bids on hot channels": ("SELECT avg((channel LIKE 'hot-%')::INT) FROM bid", 0.5, 0.03),
    "median price": ("SELECT median(log10(price)) FROM bid", 5, 0.1),
    "bytes of a person": (
        "SELECT avg(length(concat(name, emailAddress, creditCard, city, state, extra)) + 16) FROM person",
        200,
        10,
    ),
    "bytes of an auction": ("SELECT avg(length(concat(itemName, description, extra)) + 56) FROM auction", 500, 10),
    "bytes of a bid": ("SELECT avg(length(concat(channel, url, extra)) + 32) FROM bid", 100, 3),
    "different auctions": ("SELECT count(DISTINCT id) FROM auction", 360, 0),
}


@pytest.mark.parametrize("what", PROPORTIONS)
def test_proportions(db: duckdb.DuckDBPyConnection, what: str) -> None:
    query, value, within = PROPORTIONS[what]
    (found,) = db.execute(query).fetchone() or ()
    assert value - within <= found <= value + within


def test_the_bounds_of_the_generator(db: duckdb.DuckDBPyConnection) -> None:
    pairs = {
        "bid JOIN auction AS other ON auction = other.id": SETTING.reach_ms,
        "bid JOIN person AS other ON bidder = other.id": SETTING.active_ms,
        "auction AS bid JOIN person AS other ON seller = other.id": SETTING.active_ms,
    }
    for pair, latest in pairs.items():
        apart = "epoch_ms(bid.dateTime) - epoch_ms(other.dateTime)"
        first, last = db.execute(f"SELECT min({apart}), max({apart}) FROM {pair}").fetchone() or ()
        assert -SETTING.lead_ms <= first < 0 < last <= latest
    life = "epoch_ms(expires) - epoch_ms(dateTime)"
    shortest, longest = db.execute(f"SELECT min({life}), max({life}) FROM auction").fetchone() or ()
    assert 1 <= shortest < 0.05 * SETTING.lifetime_ms
    assert 0.95 * SETTING.lifetime_ms < longest <= SETTING.lifetime_ms


def test_events_out_of_order_are_the_same_events() -> None:
    shuffled = replace(SETTING, group=100)
    with connect() as db:
        in_order, out_of_order = (db.execute(rows(each, "bid", 0, 6000)).fetchall() for each in (SETTING, shuffled))
    assert in_order != out_of_order
    assert sorted(in_order) == sorted(out_of_order)


def test_records_have_the_rows_of_the_files(spark: SparkSession, inputs: Path) -> None:
    texts = [record for number in range(SETTING.files + 1) for record in records(SETTING, number)]
    assert [json.loads(text)["event_type"] for text in texts[:6]] == [0, 1, 1, 1, 2, 2]
    topic = spark.createDataFrame([(text.encode(),) for text in texts], "value BINARY")
    for kind in KINDS:
        files = spark.read.parquet(str(inputs / kind))
        assert Counter(events(topic, kind).collect()) == Counter(files.collect())


def of_run(variant: str, side: str, number: int, seconds: float, **more: object) -> dict[str, object]:
    """Return the record of a run whose four files take so many seconds each."""
    return {
        "run": "one",
        "scenario": "long, q9",
        "setting": "long",
        "part": "throughput",
        "variant": variant,
        "side": side,
        "round": number,
        "sizes": {"events": 4000, "rate": 500, "in_flight": 100, "file_events": 1000},
        "warm": [{"events": 1000, "rows": 980, "ms": 1000 * seconds}] * 2,
        "batches": {"inputRows": [1000] * 4, "stateRows": [7] * 4},
        "inSteps": False,
        "arrangedRows": 0,
        "lost": 0,
        "environment": {"date": "2026-11-29", "streamjoin": "jar", "CPU": "c", "memory": "m", "OS": "o"},
    } | more


def test_the_tables_compare_with_sparks_best_that_loses_nothing() -> None:
    records = [
        record
        for number in (1, 2, 3)
        for record in (
            of_run("q9", "spark-default", number, 0.1, lost=5),
            of_run("q9-bounded", "spark-default", number, 1.0),
            of_run("q9-bounded", "spark-rocksdb-v4", number, 2.0),
            of_run("q9", "ours-default", number, 0.2 + number / 100),
        )
    ]
    records.append(of_run("q9-bounded", "ours-default", 1, 0, unfinished=True, wall=300.0))
    older = [record | {"run": "before"} for record in records]
    page = report([*older, *records])
    lines = [[cell.strip() for cell in line.strip("| ").split("|")] for line in page.splitlines() if "|" in line]
    (published,) = [line for line in lines if line[0] == "q9, as published" and line[-1] == "yes"]
    assert published[1:] == [
        "4.5 (4.3 to 4.8)",
        "spark-default, constant bound added",
        "1.0",
        "4.55 (4.35 to 4.76)",
        ">= 4",
        "yes",
    ]
    (lost,) = [line for line in lines if line[:2] == ["q9, as published", "spark-default"]]
    assert lost[2:7] == ["10.0", "9.8", "7", "-", "5"]
    (ended,) = [line for line in lines if line[:2] == ["q9, constant bound added", "ours-default"]]
    assert ended[2] == "> 300 s"
