"""One printed line a batch, out of what Spark reports of a streaming query."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

HEADER = (
    f"{'batch':>5} {'rows':>8} {'orders until':>19} {'deliveries until':>19} "
    f"{'in state':>9} {'joined':>8} {'padded':>7} {'late':>5}"
)


@dataclass
class BatchProgress:
    """Prints every batch of a query once, and keeps what Spark reported of it.

    Spark remembers the last hundred batches only, so ``show`` is called while the query runs.
    """

    query: StreamingQuery
    batches: dict[int, dict[str, Any]] = field(default_factory=dict)

    def show(self) -> None:
        """Print a line for every batch that has ended since the last call."""
        for progress in self.query.recentProgress:
            batch = json.loads(progress.json)
            # A report without addBatch is one of an idle trigger: it carries the number of a batch yet to come.
            if batch["batchId"] in self.batches or "addBatch" not in batch["durationMs"]:
                continue
            if not self.batches:
                print(HEADER)
            self.batches[batch["batchId"]] = batch
            print(_line(batch), flush=True)

    def late_rows(self) -> int:
        """Return how many rows were dropped as late in all batches."""
        return sum(join_of(batch).get("numRowsDroppedByWatermark", 0) for batch in self.batches.values())

    def rows_in_state(self) -> int:
        """Return how many rows the join keeps after the last batch."""
        last = self.batches[max(self.batches)] if self.batches else {}
        return int(join_of(last).get("numRowsTotal", 0))

    def operator(self) -> str:
        """Return the name of the operator that joined."""
        return next((join_of(batch).get("operatorName", "none") for batch in self.batches.values()), "none")


def join_of(batch: dict[str, Any]) -> dict[str, Any]:
    """Return what a batch reported of the join, the only stateful operator of the job."""
    operators = batch.get("stateOperators", [])
    return operators[0] if operators else {}


def _line(batch: dict[str, Any]) -> str:
    join = join_of(batch)
    metrics = join.get("customMetrics", {})
    return (
        f"{batch['batchId']:>5} {batch['numInputRows']:>8} "
        f"{_watermark(batch, 'watermarkMs.left.order_time'):>19} "
        f"{_watermark(batch, 'watermarkMs.right.delivery_time'):>19} "
        f"{join.get('numRowsTotal', 0):>9} {metrics.get('joinedRows', '-'):>8} "
        f"{metrics.get('paddedRows', '-'):>7} {join.get('numRowsDroppedByWatermark', 0):>5}"
    )


def _watermark(batch: dict[str, Any], metric: str) -> str:
    millis = join_of(batch).get("customMetrics", {}).get(metric)
    return "-" if millis is None else f"{datetime.fromtimestamp(millis / 1000, UTC):%Y-%m-%d %H:%M:%S}"
