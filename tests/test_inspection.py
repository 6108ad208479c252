"""What a user sees of a query: from a symptom to its cause, and the arguments that functions reject."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from conftest import LONG
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery
from queries import Inputs, finish, settings

import streamjoin as sj


class Joined(Inputs):
    """Orders and deliveries, joined within an hour."""

    def add(self, name: str, *rows: tuple[int, str]) -> None:
        self.feed(name, *({"id": key, "t": f"2026-01-01T{time}Z"} for key, time in rows))

    def marked(self, name: str) -> DataFrame:
        return self.stream(name, "id INT, t TIMESTAMP", "t").alias(name)

    def start(self) -> StreamingQuery:
        joined = sj.join(self.marked("orders"), self.marked("deliveries"), "id", "left", within=("0 seconds", "1 hour"))
        write = joined.writeStream.format("noop").queryName("looked_at")
        return write.start(checkpointLocation=self.checkpoint("joined"))


@pytest.fixture
def inputs(spark: SparkSession, tmp_path: Path) -> Joined:
    return Joined(spark, tmp_path)


def only(df: DataFrame) -> Row:
    (row,) = df.collect()
    return row


def test_a_query_that_runs_and_its_checkpoint(inputs: Joined) -> None:
    query = inputs.start()
    assert sj.explain_analyze(query).count() == 0, "before the first batch"
    inputs.add("orders", (1, "09:00:00"), (2, "09:30:00"))
    inputs.add("deliveries", (1, "09:20:00"))
    query.processAllAvailable()
    plan = sj.explain_analyze(query)
    lines = ["1 left outer interval join", "  left: orders", "  right: deliveries"]
    assert [row.plan for row in plan.collect()] == lines
    left = only(plan.where("side = 'left'"))
    assert (left.rows_kept, left.leaves_by) == (2, "deliveries.t")
    assert [(each.column, each.held_by) for each in left.watermarks] == [("orders.t", "orders")]
    assert sj.explain_analyze(query, with_skew=True).where("task IS NOT NULL").count() == 2
    assert only(inputs.spark.sql("SELECT count(*) AS n FROM sj_explain_analyze('looked_at')")).n == 3

    state = sj.state(query, operator=1, side="left").select("left.id", "matched").collect()
    assert sorted((row.id, row.matched) for row in state) == [(1, True), (2, False)]
    assert only(sj.why(query, "orders.id = 2")).outcome == "waiting"
    query.stop()
    # A stopped query is found by its id, its checkpoint by the path.
    for of in (query, inputs.checkpoint("joined")):
        assert sj.state(of).count() == 2
        assert only(sj.why(of, "id = 2")).outcome == "waiting"
    assert [row.plan for row in sj.explain_analyze(query).collect()] == lines


def test_rows_that_wait_for_a_table(inputs: Joined) -> None:
    inputs.add("deliveries", (1, "09:20:00"))
    with settings(inputs.spark, {"spark.streamjoin.arrangements": str(inputs.folder / "arrangements")}):
        kept = sj.arrange(inputs.marked("deliveries").withColumnRenamed("t", "u"), "deliveries", "id")
        finish(kept, inputs.checkpoint("keeps"))
        inputs.add("orders", (1, "09:00:00"), (2, "09:30:00"))
        joined = inputs.marked("orders").join(sj.table("deliveries", rematch="1 hour"), "id", "left")
        query = joined.writeStream.format("noop").start(checkpointLocation=inputs.checkpoint("joined"))
        query.processAllAvailable()
        waiting = only(sj.state(query, operator=1))
        assert (waiting.row.id, waiting.leaves_after - waiting.time) == (2, timedelta(hours=1))
        assert only(sj.why(query, "id = 2")).outcome in ("waiting", "kept")
        query.stop()


def test_in_a_notebook(inputs: Joined) -> None:
    query = inputs.start()
    inputs.add("orders", (1, "09:00:00"))
    query.processAllAvailable()
    plan = sj.explain_analyze(query)._repr_html_()
    assert plan is not None and "<td>  left: orders</td>" in plan and "<th>watermarks</th>" in plan
    assert "<th>task</th>" not in plan, "columns without a value"
    found = sj.why(query, "id = 1")
    html = found._repr_html_()
    assert html is not None and f"<td>{only(found).outcome}</td>" in html
    assert "{&quot;id&quot;:1," in html, "its values are escaped"


@pytest.mark.parametrize("escaped", ["false", "true"] if LONG else ["true"])
def test_quotes_in_a_condition(inputs: Joined, escaped: str) -> None:
    """The session parses the literals of a condition by its setting; the condition arrives unchanged."""
    query = inputs.start()
    inputs.add("orders", (1, "09:00:00"))
    query.processAllAvailable()
    text = "CAST(id AS STRING)"
    waiting = [
        f"{text} = '1'",
        f'{text} = "1"',
        f"length('it\\'s') = 4 AND {text} = '1'" if escaped == "false" else f"length('a\\b') = 3 AND {text} = '1'",
        rf"{text} RLIKE '^\\d$'" if escaped == "false" else rf"{text} RLIKE '^\d$'",
        f"'配達 ${{spark.app.name}} Привет' <> {text}",
    ]
    not_seen = [f'{text} = "it\'s"', f"{text} = '\N{DELIVERY TRUCK}'"]
    with settings(inputs.spark, {"spark.sql.parser.escapedStringLiterals": escaped}):
        for condition in waiting:
            assert only(sj.why(query, condition)).outcome == "waiting", condition
        for condition in not_seen:
            assert only(sj.why(query, condition)).outcome == "not seen", condition


def test_a_time_that_python_has_not(inputs: Joined, tmp_path: Path) -> None:
    """Milliseconds that were read as seconds: the year 58874."""
    query = inputs.start()
    inputs.add("orders", (1, "09:00:00"))
    inputs.add("deliveries", (1, "09:00:00"))
    inputs.feed("orders", {"id": 2, "t": "+58874-07-11T16:00:00Z"})
    query.processAllAvailable()
    (left,) = [row for row in sj.explain_analyze(query).collect() if row.side == "left"]
    assert left.watermarks[0].watermark == "+58874-07-11T16:00:00Z"
    html = sj.explain_analyze(query)._repr_html_()
    assert html is not None and "+58874-07-11T16:00:00Z" in html
    rows = sj.state(query, operator=1, side="left", times="text").collect()
    assert {(row.left.t, row.leaves_after) for row in rows} >= {("+58874-07-11T16:00:00Z", "+58874-07-11T17:00:00Z")}
    assert only(sj.why(query, "id = 2 AND t > '2999-01-01'")).outcome == "waiting"
    assert sj.report(query, tmp_path / "report.html").exists()
    sj.why(query, "id = 2")._repr_html_()


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda query: sj.explain_analyze(query, with_skew="yes"), "with_skew=True"),  # type: ignore[arg-type]
        (lambda query: sj.explain_analyze("looked_at"), "the StreamingQuery"),  # type: ignore[arg-type]
        (lambda query: sj.state(query, operator="1"), "a whole number as operator"),  # type: ignore[arg-type]
        (lambda query: sj.state(query, operator=1, batch=True), "a whole number as batch"),
        (lambda query: sj.state(query, operator=1, times="epoch"), 'times="text"'),  # type: ignore[arg-type]
        (lambda query: sj.state(1), "or the path of a checkpoint"),  # type: ignore[arg-type]
        (lambda query: sj.why(query, F.col("id") == 1), "a condition as text"),  # type: ignore[arg-type]
        (lambda query: sj.why(query, "id = 1", batches=0), "a positive number"),
    ],
)
def test_arguments_that_no_function_takes(
    inputs: Joined, call: Callable[[StreamingQuery], object], wanted: str
) -> None:
    query = inputs.start()
    with pytest.raises(sj.StreamJoinError, match=wanted):
        call(query)
