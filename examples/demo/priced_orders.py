"""A day of orders, the prices of the items, which change and end, and the rates of the currencies, which change.

A row comes up to five minutes after its time, so that what belongs together does not come together. An item is taken
out of the shop now and then, for an hour or more. For some hours nobody says what the yen is worth. The same arguments
always give the same rows.

Prices are in cents and rates in millionths of a dollar, so that sums are exact.
"""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

START = datetime(2026, 1, 1, tzinfo=UTC)
SPAN = timedelta(days=1)
DISORDER = timedelta(minutes=5)
ITEMS = 300
PRICES = 20  # changes of each item
RATES = {"EUR": 1_170_000, "GBP": 1_340_000, "JPY": 6_700, "CHF": 1_260_000}
RATE_EVERY = timedelta(minutes=7)
SILENT = (START + timedelta(hours=13), START + timedelta(hours=16))  # of the yen

TIME = pa.timestamp("us", tz="UTC")
SCHEMAS = {
    "orders": pa.schema(
        {
            "order_id": pa.int64(),
            "order_time": TIME,
            "item": pa.int64(),
            "currency": pa.string(),
            "quantity": pa.int64(),
        }
    ),
    "prices": pa.schema({"priced_item": pa.int64(), "price_time": TIME, "cents": pa.int64(), "op": pa.string()}),
    "rates": pa.schema({"code": pa.string(), "rate_time": TIME, "rate": pa.int64()}),
}

Row = dict[str, object]
Round = dict[str, list[Row]]


def rounds(orders: int, number: int, seed: int = 1) -> Iterator[Round]:
    """Return the rows of the three streams, in rounds that come one after the other.

    The last round has a row of each stream that is far ahead, so that the watermarks pass all others.

    Args:
        orders: how many.
        number: of rounds, without the last.
        seed: of the random numbers.
    """
    chance = random.Random(seed)
    found: list[Round] = [{name: [] for name in SCHEMAS} for _ in range(number)]
    for stream, time, row in [*_orders(orders, chance), *_prices(chance), *_rates(chance)]:
        arrived = time - START + DISORDER * chance.random()
        found[int(arrived * number / (SPAN + DISORDER))][stream].append(row)
    yield from found
    far = START + 2 * SPAN
    yield {
        "orders": [{"order_id": -1, "order_time": far, "item": -1, "currency": "-", "quantity": 0}],
        "prices": [{"priced_item": -2, "price_time": far, "cents": 0, "op": "insert"}],
        "rates": [{"code": "none", "rate_time": far, "rate": 0}],
    }


def write(work: Path, number: int, rows: Round) -> None:
    """Write a round as a file for each stream."""
    for stream, schema in SCHEMAS.items():
        folder = work / stream
        folder.mkdir(parents=True, exist_ok=True)
        # Spark leaves out names that begin with an underscore: it never sees half a file.
        unfinished = folder / f"_{number:04}.parquet"
        pq.write_table(pa.Table.from_pylist(rows[stream], schema), unfinished)
        unfinished.rename(folder / f"{number:04}.parquet")


def _orders(orders: int, chance: random.Random) -> Iterator[tuple[str, datetime, Row]]:
    for order_id in range(orders):
        time = START + SPAN * (order_id / orders)
        row: Row = {
            "order_id": order_id,
            "order_time": time,
            "item": chance.randrange(ITEMS),
            "currency": chance.choice(list(RATES)),
            "quantity": chance.randrange(1, 10),
        }
        yield "orders", time, row


def _prices(chance: random.Random) -> Iterator[tuple[str, datetime, Row]]:
    for item in range(ITEMS):
        # Microseconds without repetition: of two prices of one item, one is always the later.
        micros = chance.sample(range(SPAN // timedelta(microseconds=1)), PRICES)
        cents, known = chance.randrange(100, 10_000), False
        for time in (START + timedelta(microseconds=each) for each in sorted(micros)):
            ends = known and chance.random() < 0.2
            cents = max(50, cents + chance.randrange(-200, 220))
            op = "delete" if ends else "update" if known else "insert"
            yield "prices", time, {"priced_item": item, "price_time": time, "cents": None if ends else cents, "op": op}
            known = not ends


def _rates(chance: random.Random) -> Iterator[tuple[str, datetime, Row]]:
    for code, first in RATES.items():
        rate, time = first, START
        while time < START + SPAN:
            if code != "JPY" or not SILENT[0] <= time < SILENT[1]:
                yield "rates", time, {"code": code, "rate_time": time, "rate": rate}
            rate += chance.randrange(-first // 100, first // 100)
            time += RATE_EVERY
