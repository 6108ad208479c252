"""One printed line a batch, out of what Spark reports of a streaming query."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pyspark.sql.streaming.query import StreamingQuery

Batch = dict[str, Any]


class Column(NamedTuple):
    """A column of the printed lines."""

    title: str
    width: int
    value: Callable[[Batch], object]


@dataclass
class BatchProgress:
    """Prints every batch of a query once, and keeps what Spark reported of it.

    Spark remembers the last hundred batches only, so ``show`` is called while the query runs.
    """

    query: StreamingQuery
    columns: Sequence[Column]
    batches: dict[int, Batch] = field(default_factory=dict)

    def show(self) -> None:
        """Print a line for every batch that has ended since the last call."""
        for progress in self.query.recentProgress:
            batch = json.loads(progress.json)
            # A report without addBatch belongs to an idle trigger: it has the number of the next
            # batch.
            if batch["batchId"] in self.batches or "addBatch" not in batch["durationMs"]:
                continue
            if not self.batches:
                print(" ".join(f"{column.title:>{column.width}}" for column in self.columns))
            self.batches[batch["batchId"]] = batch
            print(" ".join(f"{column.value(batch)!s:>{column.width}}" for column in self.columns), flush=True)

    def late_rows(self) -> int:
        """Return how many rows were dropped as late in all batches."""
        return sum(join.get("numRowsDroppedByWatermark", 0) for batch in self.batches.values() for join in joins(batch))

    def rows_in_state(self) -> int:
        """Return how many rows the joins keep after the last batch."""
        last = self.batches[max(self.batches)] if self.batches else {}
        return sum(int(join["numRowsTotal"]) for join in joins(last))

    def operator(self) -> str:
        """Return the name of the operator that joined."""
        names = [join["operatorName"] for batch in self.batches.values() for join in batch.get("stateOperators", [])]
        return names[0] if names else "none"


def joins(batch: Batch) -> list[Batch]:
    """Return what a batch reported of its joins, from the inputs up."""
    return sorted(batch.get("stateOperators", []), key=lambda each: each["customMetrics"].get("join", 0))


def number() -> list[Column]:
    """Return the columns that every query has."""
    return [Column("batch", 5, lambda batch: batch["batchId"]), Column("rows", 7, lambda batch: batch["numInputRows"])]


def watermark(title: str, join: int, key: str) -> Column:
    """Return a column with the watermark of an event-time column, as one of the joins sees it.

    Args:
        title: what stands above it
        join: the number of the join, from 1
        key: the side and the name of the column, such as ``left.order_time``
    """

    def value(batch: Batch) -> str:
        millis = _metrics(batch, join).get(f"watermarkMs.{key}")
        return "-" if millis is None else f"{datetime.fromtimestamp(millis / 1000, UTC):%m-%d %H:%M:%S}"

    return Column(title, max(14, len(title)), value)


def metric(title: str, join: int, name: str) -> Column:
    """Return a column with a metric of one of the joins."""
    return Column(title, max(7, len(title)), lambda batch: _metrics(batch, join).get(name, "-"))


def late() -> Column:
    """Return a column with the number of rows that all joins dropped as late."""
    return Column("late", 5, lambda batch: sum(join["numRowsDroppedByWatermark"] for join in joins(batch)))


def _metrics(batch: Batch, join: int) -> Batch:
    found = joins(batch)
    metrics: Batch = found[join - 1]["customMetrics"] if len(found) >= join else {}
    return metrics
