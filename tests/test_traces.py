"""Every story of `tests/cases` through PySpark, from two folders of JSON files.

In `make test-long` each step is a batch; otherwise the rows between two watermarks are one, unless a cap counts them.
"""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from conftest import LONG
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery
from queries import settings, write_file
from traces import Closest, Side, Step, Trace, cases, parse

import streamjoin as sj

# The watermark stays further behind the rows than any bound reaches: only punctuation rows move it.
FAR = 1_000_000
# The time 0 of a trace, in seconds since 1970.
ORIGIN = 3 * FAR

ALL = list(cases("python"))
# Scala's tests run all of them.
SOME = ALL if LONG else ALL[::8]


class TraceQuery:
    """The join of a trace as a streaming query."""

    def __init__(self, spark: SparkSession, trace: Trace, folder: Path) -> None:
        self.spark, self.trace, self.folder = spark, trace, folder
        self.outputs: dict[int, list[str]] = {}
        self.query: StreamingQuery | None = None
        self.files = 0
        self.last_seen = -1
        for side in ("left", "right"):
            (folder / side).mkdir()

    def start(self) -> None:
        def collect(batch: DataFrame, number: int) -> None:
            self.outputs[number] = [row[0] for row in batch.collect()]

        writer = self.joined().writeStream.foreachBatch(collect)
        self.query = writer.start(checkpointLocation=str(self.folder / "checkpoint"))

    def run(self, steps: list[Step]) -> list[StreamingQueryProgress]:
        """Return the progress of the batches that these rows, or one other step, caused."""
        step = steps[0]
        if step.action == "restart":
            assert self.query
            self.query.stop()
            self.start()
            return []
        if step.action == "row":
            return self.feed(
                [(each.side, {"label": each.label, "punct": False, "k": 1} | self.shifted(each)) for each in steps]
            )
        punctuation = [(step.side, {"punct": True, step.column: ORIGIN + step.watermark + FAR})]
        first = self.feed(punctuation)
        # A batch sees the watermarks of the batches before it; those of one batch earlier decide
        # which rows are late.
        return first if len(first) > 1 else first + self.feed(punctuation)

    def feed(self, rows: list[tuple[Side, dict[str, Any]]]) -> list[StreamingQueryProgress]:
        assert self.query
        self.files += 1
        for side in dict(rows):
            file = self.folder / side / f"{self.files}.json"
            write_file(file, [row for of, row in rows if of == side], self.files)
        self.query.processAllAvailable()
        progress = {p["batchId"]: p for p in self.query.recentProgress if p["batchId"] in self.outputs}
        seen = [progress[number] for number in sorted(progress) if number > self.last_seen]
        self.last_seen = max(progress)
        return seen

    def shifted(self, step: Step) -> dict[str, Any]:
        times = self.trace.times(step.side)
        return {c: ORIGIN + v if c in times and v is not None else v for c, v in step.values.items()}

    def joined(self) -> DataFrame:
        left, right = self.input("left").alias("l"), self.input("right").alias("r")
        same = [] if self.trace.has_equality() else ["l.k = r.k"]
        condition = " AND ".join([*([self.trace.condition()] if self.trace.condition() else []), *same])
        if self.trace.closest:
            joined = self.matched(left, right, condition, self.trace.closest)
        elif self.trace.window:
            window: dict[str, Any] = {each: timedelta(seconds=n) for each, n in self.trace.window.items()}
            joined = sj.window_join(left, right, sf.expr(condition), self.trace.how, **window)
        else:
            joined = left.join(right, sf.expr(condition), self.trace.how)
        if self.trace.how in ("left_semi", "left_anti"):
            return joined.select("l.label")
        return joined.select(sf.expr("concat(coalesce(l.label, '-'), '+', coalesce(r.label, '-'))"))

    def matched(self, left: DataFrame, right: DataFrame, condition: str, rule: Closest) -> DataFrame:
        how = self.trace.how
        (left_time, right_time), on = (self.trace.times(side)[0] for side in ("left", "right")), sf.expr(condition)
        if rule.is_temporal:
            versions = sj.versions(
                right, key=self.trace.keys() or "k", time=right_time, op="op" if rule.delete else None
            )
            history = None if rule.history is None else timedelta(seconds=rule.history)
            return sj.temporal_join(left, versions, on, how, as_of=left_time, history=history)
        within = None if rule.within is None else timedelta(seconds=rule.within)
        if rule.match:
            return sj.asof_join(left, right, on, how, match=rule.match, tolerance=within)
        nearest: dict[str, Any] = {"direction": "nearest", "allow_exact_matches": rule.exact}
        return sj.asof_join(left, right, on, how, tolerance=within, **nearest)

    def input(self, side: Side) -> DataFrame:
        columns = "".join(f", {column} LONG" for column in self.trace.columns(side))
        schema = f"label STRING, punct BOOLEAN, k LONG{columns}"
        stream = self.spark.readStream.schema(schema).json(str(self.folder / side))
        for time in self.trace.times(side):
            stream = stream.withColumn(time, sf.timestamp_seconds(time)).withWatermark(time, f"{FAR} seconds")
        rows = stream.where("NOT punct").drop("punct")
        if side == "right" and self.trace.closest and self.trace.closest.delete:
            return rows.withColumn("op", sf.expr(f"IF({self.trace.closest.delete} = 1, 'delete', 'insert')"))
        return rows


def batches(trace: Trace) -> list[list[Step]]:
    """Return the steps of a trace, grouped into batches."""
    found: list[list[Step]] = []
    for step in trace.steps:
        if found and step.action == found[-1][0].action == "row" and not (LONG or trace.cap):
            found[-1].append(step)
        else:
            found.append([step])
    return found


def check(
    trace: Trace, steps: list[Step], progress: list[StreamingQueryProgress], outputs: dict[int, list[str]]
) -> None:
    step, last = steps[0], steps[-1]
    seen = sorted(row for p in progress for row in outputs[p["batchId"]])
    expected = sorted(row for each in steps for row in each.expected)
    assert seen == expected, trace.at(step.line, f"expected {expected}; seen {seen}")
    if trace.window:
        return  # other layers check the order of its rows, and the state below it
    operators = [p["stateOperators"][0] for p in progress]
    late = sum(operator["numRowsDroppedByWatermark"] for operator in operators)
    dropped = sum(each.late for each in steps)
    assert late == dropped, trace.at(step.line, f"expected {dropped} late rows; seen {late}")
    if last.state and operators:
        kept = {side: operators[-1]["customMetrics"][f"{side}RowsInState"] for side in ("left", "right")}
        assert kept == last.state, trace.at(last.line, f"expected {last.state} rows in state; seen {kept}")


@pytest.mark.usefixtures("watermark_before_filter")
@pytest.mark.parametrize("trace", SOME, ids=[trace.name for trace in SOME])
def test_trace(spark: SparkSession, trace: Trace, tmp_path: Path) -> None:
    query = TraceQuery(spark, trace, tmp_path)
    given: dict[str, str] = {}
    if trace.cap:
        given["spark.streamjoin.maxAccumulatedRecords"] = trace.cap
    if trace.closest and trace.closest.remembers is not None:
        given["spark.streamjoin.temporal.deletedKeysMaxAge"] = f"{trace.closest.remembers}s"
    with settings(spark, given):
        if trace.fails and not trace.steps:
            with pytest.raises(Exception, match=trace.fails):
                query.start()
            return
        query.start()
        for steps in batches(trace):
            if trace.fails and steps[-1] is trace.steps[-1]:
                with pytest.raises(Exception, match=trace.fails):
                    query.run(steps)
            else:
                check(trace, steps, query.run(steps), query.outputs)


def test_there_are_cases() -> None:
    assert len(ALL) > 30


def test_parser() -> None:
    trace = parse(
        "story",
        "# what\njoin: inner\nleft: time\nright: time\non: right.time <= left.time + 4\non: left.v > -3\n"
        "left a time=-1 v=null  # a comes\n  expect a+x\n  late a\n  state a b |\nwatermark left.time 9\nrestart\n",
    )
    assert trace.condition() == "r.time <= l.time + INTERVAL 4 SECONDS AND l.v > -3"
    assert not trace.has_equality()
    assert trace.columns("left") == ["time", "v"]
    row, watermark, restart = trace.steps
    assert (row.side, row.label, row.values) == ("left", "a", {"time": -1, "v": None})
    assert (row.expected, row.late, row.state) == (["a+x"], 1, {"left": 2, "right": 0})
    assert (watermark.side, watermark.column, watermark.watermark) == ("left", "time", 9)
    assert restart.action == "restart"
    assert "-->   7  left a" in trace.at(7, "why")


def test_parser_rejects() -> None:
    with pytest.raises(ValueError, match="not a line of a trace"):
        parse("story", "join: inner\nup a time=1\n")
