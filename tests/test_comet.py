"""Joins alongside Apache DataFusion Comet: `make test-comet`, which runs the traces and the random cases with it, too.

Comet leaves a plan with a stream alone, but it replaces Spark's operators above and below a join in a batch without new
rows, which has no stream: such a batch evicts rows and emits those without a match.
"""

from pathlib import Path

import pytest
from comet import JAR
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from queries import Inputs

pytestmark = pytest.mark.skipif(not JAR, reason="no jar of Comet: make test-comet")


def test_comet_is_on(spark: SparkSession) -> None:
    rows = spark.range(0, 1000, 1, 2).selectExpr("id % 10 AS key", "id").groupBy("key").sum("id")
    plan = rows._jdf.queryExecution().executedPlan().toString()
    assert "CometHashAggregate" in plan
    assert "CometExchange" in plan or "CometColumnarExchange" in plan
    assert sorted(map(tuple, rows.collect()))[3] == (3, sum(range(3, 1000, 10)))


def test_a_batch_without_rows_emits_what_has_no_match(spark: SparkSession, tmp_path: Path) -> None:
    inputs = Inputs(spark, tmp_path)
    orders = inputs.stream("orders", "order_id INT, ordered TIMESTAMP", "ordered")
    deliveries = inputs.stream("deliveries", "delivery_id INT, delivered TIMESTAMP", "delivered")
    on = F.expr("order_id = delivery_id AND delivered >= ordered AND delivered <= ordered + INTERVAL 10 SECONDS")
    joined = orders.join(deliveries, on, "left_outer").select("order_id", "delivery_id")
    query = joined.writeStream.format("memory").queryName("comet").start()
    ordered, delivered = ["00:00:00", "00:00:01", "01:00:00"], {0: "00:00:05", 2: "01:00:01"}
    inputs.feed("orders", *({"order_id": n, "ordered": f"2026-01-01T{time}Z"} for n, time in enumerate(ordered)))
    inputs.feed(
        "deliveries", *({"delivery_id": n, "delivered": f"2026-01-01T{time}Z"} for n, time in delivered.items())
    )
    query.processAllAvailable()
    last = next(batch for batch in reversed(query.recentProgress) if batch["stateOperators"])
    plan = query._jsq.explainInternal(False)
    query.stop()
    assert last["numInputRows"] == 0
    assert "Comet" in plan, plan
    assert {tuple(row) for row in spark.table("comet").collect()} == {(0, 0), (1, None), (2, 2)}
