"""Scenarios of a query that has run for long: W2, W2f and W3 with a full state, as fast as they can.

W2 is orders with their deliveries within an hour, W2f orders with clicks on the same of 2,000 items within 5 s, and W3
is W2 joined with the returns within half an hour of the delivery. There are 200 orders for each second of event time,
nine deliveries for ten orders, nine returns for ten deliveries, and 10 s of disorder. A file has the rows that arrive
within 250 s, which are 50,000 orders, so that no stream runs ahead of the others, and the state stays as large as it is
after an hour and a half.
"""

import math

from harness.generate import click_table, delivery_table, item_order_table, order_table, within
from harness.inputs import DISORDER_MICROS, FAR, MICROS_PER_ROW, START, Chain, LongTable, Streams, Table
from harness.scenario import HOUR_MS, LEFT_OUT, MILLION, Kind, Scenario, rows
from harness.sides import AND_DEFAULT, DEFAULT_STORE, OURS, SPARK_OUR_FILES

ORDERS = 4 * MILLION
FILE_ROWS = 50_000
ITEMS = 2_000
GROUPS = ("steady", "steady-cpu", "steady-heap")
# Closing rows of the third stream.
RETURNS_CLOSING = f"SELECT -1::BIGINT AS return_id, -3::BIGINT AS returned_order_id, {FAR} AS return_time, '' AS reason"


def steady(scale: float) -> list[Scenario]:
    """Return the scenarios.

    Args:
        scale: multiplies the orders; below 1 also the rows of a file and the bounds, so that the state is the same
            share of the input. Above 1 a run takes longer: nothing else changes.
    """
    pace = Pace(scale)
    w2 = pace.w2()
    queries: list[tuple[str, str, Streams, str]] = [
        ("w2-inner", "W2: orders and their deliveries within a bound, inner", w2, "inner"),
        ("w2-left", "W2: orders and their deliveries within a bound, left outer", w2, "left_outer"),
        ("w2f", "W2f: orders and as many clicks on 2,000 items, ±5 s, inner", pace.w2f(), "inner"),
        ("w3", "W3: orders, their deliveries and the returns of these, inner", pace.w3(w2), "inner"),
    ]
    kinds: list[tuple[str, Kind, str, tuple[str, ...], int | None]] = [
        ("steady", "time", "as fast as it can", DEFAULT_STORE, None),
        ("steady-cpu", "cpu", "the CPU time of its later batches; no times are taken", DEFAULT_STORE, 1),
        ("steady-heap", "memory", "a garbage collection after each batch", (*SPARK_OUR_FILES, *OURS), 1),
    ]
    return [
        Scenario(
            f"{group}-{short}",
            group,
            f"{title}, {pace.batches} batches, {words}",
            streams,
            "left_outer" if how == "left_outer" else "inner",
            # The headline has all of them.
            sides=AND_DEFAULT if (group, short) == ("steady", "w2-left") else sides,
            kind=kind,
            rounds=rounds,
            measured=(math.ceil(pace.batches * LEFT_OUT), pace.batches),
            warms_up=kind != "memory",
        )
        for group, kind, words, sides, rounds in kinds
        for short, title, streams, how in queries
    ]


class Pace:
    """The streams at a scale."""

    def __init__(self, scale: float) -> None:
        small = min(scale, 1)
        self.file_rows = max(1, rows(FILE_ROWS, small))
        self.batches = max(1, rows(ORDERS, scale) // self.file_rows)
        self.orders = self.batches * self.file_rows
        self.file_micros = self.file_rows * MICROS_PER_ROW
        self.bound_ms = round(HOUR_MS * small)
        days = self.orders * MICROS_PER_ROW / 86_400_000_000
        assert days < 30, f"{self.orders:,} orders take {days:.1f} days, and the closing rows are at the 30th"

    def w2(self) -> Streams:
        """Return orders and the deliveries of nine tenths of them, each up to one and a half bounds after its order."""
        order = "'customer-' || (number % 10007) AS customer, (number * 7919) % 20000 AS cents"
        delivery = "'courier-' || (number % 101) AS courier"
        where = "draw(number, 2, 10) < 9"
        return Streams(
            name=f"steady-w2-{self.orders}",
            left=self._arriving(order_table(""), "number", "ordered", order, seed=3),
            right=self._arriving(delivery_table(""), "number", self._delivered, delivery, seed=4, where=where),
            bound=_after("delivery_time", "order_time", self.bound_ms),
            delay_ms=DISORDER_MICROS // 1000,
        )

    def w2f(self) -> Streams:
        """Return orders and as many clicks on the same few items."""
        order, click = "'customer-' || (number % 10007) AS customer", "'page-' || (number % 101) AS page"
        return Streams(
            name=f"steady-w2f-{self.orders}",
            left=self._arriving(item_order_table(""), f"draw(number, 1, {ITEMS})", "ordered", order, seed=3),
            right=self._arriving(click_table(""), f"draw(number, 2, {ITEMS})", "ordered", click, seed=4),
            bound=within("click_time", "order_time", 5_000),
            delay_ms=DISORDER_MICROS // 1000,
        )

    def w3(self, w2: Streams) -> Chain:
        """Return W2 and the returns of nine tenths of the deliveries, each up to 1.5 half bounds after its delivery."""
        half = self.bound_ms // 2
        table = Table("returns", "return_id", "returned_order_id", "return_time", "", RETURNS_CLOSING)
        time = f"{self._delivered} + draw(number, 6, {half * 1500})"
        reason = "'reason-' || (number % 11) AS reason"
        where = "draw(number, 2, 10) < 9 AND draw(number, 7, 10) < 9"
        return Chain(
            name=f"steady-w3-{self.orders}",
            left=w2.left,
            right=w2.right,
            bound=w2.bound,
            delay_ms=w2.delay_ms,
            third=self._arriving(table, "number", time, reason, seed=5, where=where),
            # By the number of the order, as in the first join: its rows are shuffled only once.
            then=f"returned_order_id = order_id AND {_after('return_time', 'delivery_time', half)}",
        )

    @property
    def _delivered(self) -> str:
        return f"ordered + draw(number, 1, {self.bound_ms * 1500})"

    def _arriving(self, table: Table, key: str, micros: str, text: str, seed: int, where: str = "true") -> LongTable:
        """Return a table whose rows are cut by the time of their arrival; what arrives after the end is left out.

        Args:
            table: its name, columns and closing row.
            key: SQL of the key, which may use ``number``.
            micros: SQL of the time from the start, which may use ``number`` and ``ordered``, the time of the order.
            text: SQL of the other columns, which may use ``number``.
            seed: of the disorder.
            where: which numbers have a row.
        """
        numbers = f"SELECT range AS number, range * {MICROS_PER_ROW} AS ordered FROM range({{first}}, {{until}})"
        timed = f"SELECT number, {micros} AS micros FROM ({numbers}) WHERE {where}"
        arrived = f"SELECT *, micros + draw(number, {seed}, {DISORDER_MICROS}) AS place FROM ({timed})"
        cut = f"SELECT *, place // {self.file_micros} AS batch FROM ({arrived})"
        own = f"number AS {table.row_id}" + ("" if table.key == table.row_id else f", {key} AS {table.key}")
        sql = (
            f"SELECT {own}, {START} + to_microseconds(micros) AS {table.time}, {text}, batch, place "
            f"FROM ({cut}) WHERE batch < {self.batches}"
        )
        names = (table.name, table.row_id, table.key, table.time)
        return LongTable(*names, sql, table.closing, numbers=self.orders, file_numbers=self.file_rows)


def _after(time: str, other: str, bound_ms: int) -> str:
    return f"{time} >= {other} AND {time} <= {other} + INTERVAL {bound_ms} MILLISECONDS"
