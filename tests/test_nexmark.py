"""The Nexmark benchmark: its generator, and each variant of each query compared with DuckDB."""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT
from pyspark.sql import SparkSession
from queries import settings

sys.path.append(str(ROOT / "benchmarks"))

from nexmark.generator import KINDS, Setting, connect, generate
from nexmark.queries import BY_VARIANT, answer
from nexmark.running import Feed, arrange, create_views, result

# Ten seconds of events in three files, so that a window ends before the last file.
SETTING = Setting(events=6000, rate=500, in_flight=100, file_events=2000)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(SETTING, tmp_path_factory.mktemp("nexmark"))


@pytest.fixture
def batches(spark: SparkSession) -> Iterator[None]:
    yield
    for kind in (*KINDS, "side"):
        spark.catalog.dropTempView(kind)
    spark.conf.unset("spark.streamjoin.arrangements")


RUNS = [
    (name, engine)
    for name, (_, variant) in BY_VARIANT.items()
    for engine, runs in (("spark", variant.spark), ("ours", variant.ours))
    if runs
]


@pytest.mark.usefixtures("batches")
@pytest.mark.parametrize(("name", "engine"), RUNS, ids=[f"{name}-by-{engine}" for name, engine in RUNS])
def test_a_query_has_the_rows_of_duckdb(
    spark: SparkSession, inputs: Path, tmp_path: Path, name: str, engine: str
) -> None:
    query, variant = BY_VARIANT[name]
    feed = Feed(inputs, tmp_path / "arrived", query.reads)
    with settings(spark, {"spark.streamjoin.enabled": str(engine == "ours").lower()}):
        create_views(spark, inputs, feed.arrived, query.reads)
        running = arrange(spark, variant, inputs, feed.arrived, tmp_path)
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
        emitted[tuple(row[column] for column in columns)] += row["_diff"] if variant.is_delta else 1
    with connect() as db:
        expected = Counter(db.execute(answer(query, SETTING, inputs)).fetchall())
    assert sum(expected.values()) > 10
    assert +emitted == expected
