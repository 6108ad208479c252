"""Queries that only Python can write: each runs with the extension off and on, and gives the same rows.

This file is also the program that runs them, in two sessions one after the other. The queries in Scala and SQL are in
``ParitySuite``.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import LINE, LONG, run
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import BooleanType, IntegerType, LongType, StringType
from queries import Inputs, write_file

import streamjoin as sj

CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"
BOUND = "d.t BETWEEN o.t - INTERVAL 5 MINUTES AND o.t + INTERVAL 20 MINUTES"
BOTH = f"o.id = d.id AND {BOUND}"
EVENT = "id STRING, t TIMESTAMP, v INT"


class Events(Inputs):
    """The streams of a run."""

    def marked(self, name: str) -> DataFrame:
        """Return a stream with a watermark on its time, and its name as alias."""
        return self.stream(name, EVENT).withWatermark("t", "10 minutes").alias(name)

    @property
    def o(self) -> DataFrame:
        return self.marked("o")

    @property
    def d(self) -> DataFrame:
        return self.marked("d")

    def pairs(self) -> DataFrame:
        return self.o.join(self.d, F.expr(BOTH)).selectExpr("o.id", "o.t", "o.v", "d.v AS w")


@F.udf(IntegerType())
def plus(x: int, y: int) -> int:
    return x + y


@F.udf(StringType())
def lower(text: str | None) -> str | None:
    return text.lower() if text else text


@F.udf(BooleanType())
def even(v: int) -> bool:
    return v % 2 == 0


@F.pandas_udf(LongType())  # type: ignore[attr-defined, untyped-decorator]
def times(v: pd.Series, w: pd.Series) -> pd.Series:
    return v * w


def doubled(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for frame in frames:
        yield frame.assign(v=frame.v * 2)


def counted(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    total = (state.get[0] if state.exists else 0) + sum(len(frame) for frame in frames)
    state.update((total,))
    yield pd.DataFrame({"id": [key[0]], "n": [total]})


def with_state(inputs: Events) -> DataFrame:
    groups = inputs.pairs().select("id", "w").groupBy("id")
    return groups.applyInPandasWithState(counted, "id STRING, n INT", "n INT", "append", GroupStateTimeout.NoTimeout)


def renamed_self_join(inputs: Events) -> DataFrame:
    events = inputs.o
    later = F.expr("a.id = b.id AND b.t2 BETWEEN a.t AND a.t + INTERVAL 10 MINUTES")
    return events.alias("a").join(events.toDF("id", "t2", "v2").alias("b"), later).select("a.id", "v", "v2")


def left_join(inputs: Events) -> DataFrame:
    orders = inputs.o.where("t IS NOT NULL")
    joined = orders.join(inputs.d, F.expr(BOTH), "left_outer")
    return joined.select("o.id", plus("o.v", F.coalesce("d.v", F.lit(-1))).alias("p"))


Query = Callable[[Events], DataFrame]
# Their unmatched rows may be emitted in another batch: Spark has one watermark for all inputs.
UNMATCHED = {"a UDF above a left join"}
ALL: dict[str, Query] = {
    "a UDF in select, filters and the condition": lambda i: (
        i.o.where(even("v") | ~even("v"))
        .join(i.d, F.expr(BOTH) & (plus("o.v", "d.v") > 2))
        .where(even("d.v"))
        .select(plus("o.v", "d.v").alias("p"))
    ),
    "a UDF as key": lambda i: (
        i.o.where("id IS NOT NULL")
        .join(i.d, (lower("o.id") == lower("d.id")) & F.expr(BOUND))
        .select("o.id", F.col("d.id").alias("i"))
    ),
    "a UDF above a left join": left_join,
    "mapInPandas below": lambda i: (
        i.stream("o", EVENT)
        .mapInPandas(doubled, EVENT)
        .withWatermark("t", "10 minutes")
        .alias("o")
        .join(i.d, F.expr(BOTH))
        .select("o.v", F.col("d.v").alias("w"))
    ),
    "a pandas UDF and mapInPandas above": lambda i: (
        i.pairs().select("id", times("v", "w").alias("v")).mapInPandas(doubled, "id STRING, v LONG")
    ),
    "applyInPandasWithState above": with_state,
    "a stream joined with itself by new names": renamed_self_join,
    "frames as parameters of SQL": lambda i: i.spark.sql(
        f"SELECT o.v, d.v AS w FROM {{o}} o JOIN {{d}} d ON {BOTH} AND d.v >= :least", args={"least": 1}, o=i.o, d=i.d
    ),
}
# `make test` has every third.
QUERIES = ALL if LONG else dict(list(ALL.items())[::3])


def received(query: Query, inputs: Events, checkpoint: Path) -> list[list[str]]:
    """Return the rows of each non-empty batch."""
    batches: list[list[str]] = []

    def collect(batch: DataFrame, _: int) -> None:
        rows: list[Row] = batch.collect()
        if rows:
            batches.append(sorted(str(row) for row in rows))

    writer = query(inputs).writeStream.foreachBatch(collect).trigger(availableNow=True)
    running = writer.start(checkpointLocation=str(checkpoint))
    assert running.awaitTermination(300), "it runs on"
    return batches


def answers(extension: bool, folder: Path, output: Path) -> None:
    """Run all queries, and write their rows, or the error that they fail with."""
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.log.level", "OFF")
        # Starts fewer processes per file than the default where Hadoop has no native library.
        .config(
            "spark.sql.streaming.checkpointFileManagerClass", f"{CHECKPOINTING}.FileSystemBasedCheckpointFileManager"
        )
    )
    spark = (sj.configure(builder) if extension else builder).getOrCreate()
    assert (spark.conf.get("spark.sql.extensions", None) is not None) == extension
    inputs = Events(spark, folder)

    def answer(at: int, query: Query) -> list[list[str]] | str:
        try:
            return received(query, inputs, output.parent / f"{output.name}-checkpoints" / str(at))
        except Exception as failed:
            return str(failed)

    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(answer, range(len(QUERIES)), QUERIES.values()))
    output.write_text(json.dumps(dict(zip(QUERIES, results, strict=True))))
    spark.stop()


# Keys, minutes after 10 o'clock, values: one file per batch. No row is late, and the last file
# passes all bounds.
Event = tuple[str | None, float | None, int]
FILES: dict[str, list[list[Event]]] = {
    "o": [
        [("a", 0, 1), ("a", 7, 2), ("b", 12, 3), (None, 3, 4), ("A", 5, 5), ("x", 9, 6), ("b", 9, 2), ("c", 4, 1)],
        [("end", 3000, 1)],
    ],
    "d": [
        [("a", 2, 2), ("b", 11, 4), ("b", 5, 1), (None, 3, 4), ("y", 1, 6), ("a", None, 3), ("b", 8, 0), ("c", 9, 2)],
        [("end", 3001, 3)],
    ],
}


def write_files(folder: Path) -> None:
    start = datetime(2024, 6, 1, 10, tzinfo=UTC)
    for name, files in FILES.items():
        for number, rows in enumerate(files):
            times = [None if at is None else (start + timedelta(minutes=at)).isoformat() for _, at, _ in rows]
            events = [{"id": key, "t": time, "v": v} for (key, _, v), time in zip(rows, times, strict=True)]
            write_file(folder / name / f"{number}.json", events, number)


Answers = dict[str, list[list[str]] | str]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Answers, Answers]:
    """Return the answers of the queries without the extension, and with it."""
    folder = tmp_path_factory.mktemp("parity")
    write_files(folder / "inputs")

    paths = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYSPARK_PYTHON": sys.executable}
    run([sys.executable, __file__, str(folder / "inputs"), str(folder)], paths)
    return json.loads((folder / "off").read_text()), json.loads((folder / "on").read_text())


@pytest.mark.parametrize("name", QUERIES)
def test_the_extension_changes_no_row(name: str, both: tuple[Answers, Answers]) -> None:
    if LINE == "4.1" and name == "applyInPandasWithState above":
        pytest.skip("plain PySpark 4.1 cannot run it: it slices a batch of pyarrow 26 by a float")
    without, with_it = (answers[name] for answers in both)
    assert not isinstance(without, str), f"wrong query, plain Spark does not run it: {without}"
    assert without
    assert not isinstance(with_it, str), with_it
    if name in UNMATCHED:
        assert in_order(with_it) == in_order(without)
    else:
        assert with_it == without


def in_order(batches: list[list[str]]) -> list[str]:
    return sorted(row for batch in batches for row in batch)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("inputs", type=Path)
    parser.add_argument("outputs", type=Path)
    arguments = parser.parse_args()
    # In this order: the first session's class path and settings stay for the next one.
    answers(False, arguments.inputs, arguments.outputs / "off")
    answers(True, arguments.inputs, arguments.outputs / "on")
