"""Two live streams for the demo, orders and the deliveries of most of them, or three.

Four hours of event time are cut into steps of five minutes. A step holds the rows that *arrive* in those minutes,
not the rows that happened in them: rows are up to ``DISORDER`` behind. So a row is in one of two cases, and how
Spark cuts the steps into batches changes nothing about it, as long as a batch takes ``STEPS_PER_BATCH`` at most:

- on time: it is at most ``DISORDER`` behind any row that arrived in an earlier step, less than the watermark
  delay;
- late: it arrives ``LATE_BY`` after it happened. A row is late below the watermark of the batch before its own,
  which every step ``2 * STEPS_PER_BATCH`` before the row's has already moved. ``streams`` asserts the distance.

With ``--returns`` there is a third stream, of the deliveries that are sent back. It stalls: from ``STALLED_FROM`` on
nothing of it arrives, and at ``STALLED_UNTIL`` all that was held up does. None of its rows is late, for its watermark
stood as well.

The last step closes the streams: one order and one delivery, far ahead, that match nobody and move both
watermarks past everything else. They themselves stay in the join's state forever.
"""

import argparse
import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

START = datetime(2026, 1, 1, tzinfo=UTC)
SPAN = timedelta(hours=4)
STEP = timedelta(minutes=5)
DISORDER = timedelta(minutes=5)
LATE_BY = timedelta(hours=2)
WATERMARK_DELAY = timedelta(minutes=10)
STEPS_PER_BATCH = 4
STALLED_FROM = START + timedelta(hours=1)
STALLED_UNTIL = START + timedelta(hours=2, minutes=30)

CLOSING_ORDER, CLOSING_DELIVERY, CLOSING_RETURN = -1, -2, -3
COURIERS = ("bike", "van", "drone", "foot")

ORDERS = pa.schema(
    {
        "order_id": pa.int64(),
        "order_time": pa.timestamp("us", tz="UTC"),
        "customer": pa.string(),
        "cents": pa.int64(),
    }
)
DELIVERIES = pa.schema(
    {
        "delivery_id": pa.int64(),
        "order_id": pa.int64(),
        "delivery_time": pa.timestamp("us", tz="UTC"),
        "courier": pa.string(),
    }
)

RETURNS = pa.schema(
    {
        "return_id": pa.int64(),
        "delivery_id": pa.int64(),
        "return_time": pa.timestamp("us", tz="UTC"),
        "reason": pa.string(),
    }
)
SCHEMAS = {"orders": ORDERS, "deliveries": DELIVERIES, "returns": RETURNS}
REASONS = ("broken", "too late", "wrong", "not wanted")

Row = dict[str, object]


@dataclass
class Step:
    """The rows of the streams that arrive together, in the order of their arrival."""

    orders: list[Row] = field(default_factory=list)
    deliveries: list[Row] = field(default_factory=list)
    returns: list[Row] = field(default_factory=list)

    def of(self, stream: str) -> list[Row]:
        """Return the rows of a stream by its name."""
        rows: list[Row] = getattr(self, stream)
        return rows


@dataclass
class Streams:
    """The streams, and the ids of the rows in them that any run drops as late."""

    steps: list[Step]
    late_orders: list[int]
    late_deliveries: list[int]


def streams(orders: int, seed: int = 1, returns: bool = False) -> Streams:
    """Return the streams of ``orders`` orders; the same arguments always give the same rows.

    Args:
        orders: how many orders
        seed: of the random numbers
        returns: with the third stream
    """
    assert LATE_BY > 2 * STEPS_PER_BATCH * STEP + STEP + DISORDER + WATERMARK_DELAY
    assert DISORDER < WATERMARK_DELAY
    chance, fate = random.Random(seed), random.Random(seed + 1)
    arrivals: list[tuple[datetime, str, Row]] = []
    late: dict[str, list[int]] = {"orders": [], "deliveries": []}

    def arrive(stream: str, row: Row, row_id: int, happened: datetime) -> None:
        is_late = happened < START + SPAN - LATE_BY and chance.random() < 0.001
        if is_late:
            late[stream].append(row_id)
        arrivals.append((happened + (LATE_BY if is_late else DISORDER * chance.random()), stream, row))

    delivery_id = 0
    for order_id in range(orders):
        ordered = _whole_ms(START + SPAN * (order_id / orders))
        order: Row = {
            "order_id": order_id,
            "order_time": ordered,
            "customer": f"customer-{chance.randrange(5000)}",
            "cents": chance.randrange(500, 20000),
        }
        arrive("orders", order, order_id, ordered)
        # None for one order in twelve, two for some; one in seven takes more than the hour that the
        # join allows.
        for _ in range(chance.choices((0, 1, 2), (8, 86, 6))[0]):
            delivered = _whole_ms(ordered + timedelta(minutes=chance.uniform(5, 70)))
            delivery: Row = {
                "delivery_id": delivery_id,
                "order_id": order_id,
                "delivery_time": delivered,
                "courier": chance.choice(COURIERS),
            }
            arrive("deliveries", delivery, delivery_id, delivered)
            if returns and fate.random() < 0.2:
                arrivals.append(_returned(delivery_id, delivered, fate))
            delivery_id += 1
    return Streams([*_cut(arrivals), _closing_step(returns)], late["orders"], late["deliveries"])


def _returned(delivery_id: int, delivered: datetime, fate: random.Random) -> tuple[datetime, str, Row]:
    """Return a return and its arrival; one in four takes longer than the half hour that the join allows."""
    happened = _whole_ms(delivered + timedelta(minutes=fate.uniform(1, 40)))
    row: Row = {
        "return_id": delivery_id,
        "delivery_id": delivery_id,
        "return_time": happened,
        "reason": fate.choice(REASONS),
    }
    arrived = happened + DISORDER * fate.random()
    if STALLED_FROM <= arrived < STALLED_UNTIL:
        # The same order, all in the step that follows.
        arrived = STALLED_UNTIL + STEP * ((arrived - STALLED_FROM) / (STALLED_UNTIL - STALLED_FROM))
    return arrived, "returns", row


def _whole_ms(moment: datetime) -> datetime:
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def _cut(arrivals: list[tuple[datetime, str, Row]]) -> list[Step]:
    arrivals.sort(key=lambda arrival: arrival[0])
    steps = [Step() for _ in range((arrivals[-1][0] - START) // STEP + 1)]
    for arrived, stream, row in arrivals:
        step = steps[(arrived - START) // STEP]
        step.of(stream).append(row)
    return steps


def _closing_step(returns: bool) -> Step:
    far = START + SPAN + timedelta(days=1)
    order: Row = {"order_id": CLOSING_ORDER, "order_time": far, "customer": "closing", "cents": 0}
    delivery: Row = {"delivery_id": -1, "order_id": CLOSING_DELIVERY, "delivery_time": far, "courier": "closing"}
    closing: Row = {"return_id": -1, "delivery_id": CLOSING_RETURN, "return_time": far, "reason": "closing"}
    return Step([order], [delivery], [closing] if returns else [])


def json_lines(rows: list[Row]) -> Iterator[str]:
    """Return the rows as Kafka carries them here: one JSON object a line, times in ISO 8601."""

    def encode(value: object) -> str:
        assert isinstance(value, datetime), f"expected a time, seen {value!r}"
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    return (json.dumps(row, default=encode) for row in rows)


def write_files(generated: Streams, work: Path, pause: float, steps: slice = slice(None)) -> None:
    """Write one Parquet file a step and stream into ``work/orders`` and so on, ``pause`` seconds between two steps.

    The ids of the late rows go to ``work/late.json``, next to the streams: the query does not see them. Only those
    steps are written that the slice has.
    """
    late = {"orders": generated.late_orders, "deliveries": generated.late_deliveries}
    (work / "late.json").write_text(json.dumps(late))
    for number, step in list(enumerate(generated.steps))[steps]:
        for stream, schema in SCHEMAS.items():
            if step.of(stream):
                _write(work / stream, number, step.of(stream), schema)
        time.sleep(pause)


def _write(folder: Path, number: int, rows: list[Row], schema: pa.Schema) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    # Spark leaves out names that begin with an underscore: it never sees half a file.
    unfinished = folder / f"_{number:04}.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema), unfinished)
    unfinished.rename(folder / f"{number:04}.parquet")


def main() -> None:
    """Write the streams as growing folders of files."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--orders", type=int, default=200_000)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--pause", type=float, default=0.3, help="seconds between two steps")
    parser.add_argument("--returns", action="store_true", help="with a third stream, which stalls for a while")
    args = parser.parse_args()
    write_files(streams(args.orders, returns=args.returns), args.work, args.pause)


if __name__ == "__main__":
    main()
