"""Three tables of TPC-H that change: customers, their orders, and the lines of these.

The first round fills the tables. Each later one changes about one order in a hundred and as many lines: orders come
with their lines, change or go, and a few customers move to another segment. A round is a file for each table, in which
a key is there once at most. The same arguments always give the same rows.

Prices are in cents and discounts in percent, so that sums are exact.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

CUSTOMERS, ORDERS = 150_000, 1_500_000  # of scale 1; an order has four lines on average
SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY")
FIRST_DAY, DAYS = date(1992, 1, 1), 2405

SCHEMAS = {
    "customer": pa.schema({"c_custkey": pa.int64(), "c_name": pa.string(), "c_mktsegment": pa.string()}),
    "orders": pa.schema(
        {
            "o_orderkey": pa.int64(),
            "o_custkey": pa.int64(),
            "o_orderdate": pa.date32(),
            "o_shippriority": pa.int32(),
        }
    ),
    "lineitem": pa.schema(
        {
            "l_orderkey": pa.int64(),
            "l_linenumber": pa.int32(),
            "l_extendedprice": pa.int64(),
            "l_discount": pa.int32(),
            "l_shipdate": pa.date32(),
        }
    ),
}
KEYS = {"customer": ("c_custkey",), "orders": ("o_orderkey",), "lineitem": ("l_orderkey", "l_linenumber")}

Row = dict[str, object]


@dataclass
class Round:
    """The changes that come together: by table, its rows with the column ``op``."""

    changes: dict[str, list[Row]] = field(default_factory=lambda: {name: [] for name in SCHEMAS})

    def change(self, table: str, op: str, row: Row) -> None:
        """Add a change; a row that is deleted has its key alone."""
        kept = {name: row[name] for name in KEYS[table]} if op == "delete" else row
        self.changes[table].append(kept | {"op": op})

    def write(self, work: Path, number: int) -> None:
        """Write a file for each table that has changed."""
        for table, rows in self.changes.items():
            if rows:
                schema = SCHEMAS[table].append(pa.field("op", pa.string()))
                folder = work / table
                folder.mkdir(parents=True, exist_ok=True)
                # Complete when a query sees it.
                hidden = folder / f".{number:03}.parquet"
                pq.write_table(pa.Table.from_pylist(rows, schema=schema), hidden)
                hidden.rename(folder / f"{number:03}.parquet")

    def __len__(self) -> int:
        return sum(map(len, self.changes.values()))


def rounds(scale: float, number: int, seed: int = 1) -> Iterator[Round]:
    """Yield the first load and then so many rounds of changes.

    Args:
        scale: 1 is TPC-H's six million lines.
        number: of rounds, the first load counted.
        seed: of the random numbers.
    """
    shop = _Shop(scale, random.Random(seed))
    yield shop.first_load()
    for _ in range(number - 1):
        yield shop.next_round()


class _Shop:
    def __init__(self, scale: float, chance: random.Random) -> None:
        self.chance = chance
        self.customers = max(10, round(CUSTOMERS * scale))
        self.first_orders = max(20, round(ORDERS * scale))
        self.orders: list[Row] = []
        self.lines: dict[object, list[Row]] = {}
        self.next_order = 0

    def first_load(self) -> Round:
        load = Round()
        for key in range(self.customers):
            load.change("customer", "insert", self._customer(key))
        for _ in range(self.first_orders):
            self._insert(load)
        return load

    def next_round(self) -> Round:
        changes = Round()
        changed = max(3, self.first_orders // 100)
        # An order is in one of the three, so that a key comes once in a round.
        touched = self.chance.sample(range(len(self.orders)), min(changed, len(self.orders) // 2))
        third = len(touched) // 3
        for at in touched[:third]:
            self._update_order(changes, self.orders[at])
        for at in touched[third : 2 * third]:
            self._update_line(changes, self.orders[at])
        for at in sorted(touched[2 * third :], reverse=True):
            self._delete(changes, at)
        for _ in range(len(touched) - 2 * third):
            self._insert(changes)
        for key in self.chance.sample(range(self.customers), max(1, self.customers // 500)):
            changes.change("customer", "update", self._customer(key))
        return changes

    def _customer(self, key: int) -> Row:
        return {
            "c_custkey": key,
            "c_name": f"Customer#{key:09}",
            "c_mktsegment": self.chance.choice(SEGMENTS),
        }

    def _insert(self, into: Round) -> None:
        key = self.next_order
        self.next_order += 1
        order: Row = {
            "o_orderkey": key,
            "o_custkey": self.chance.randrange(self.customers),
            "o_orderdate": FIRST_DAY + timedelta(days=self.chance.randrange(DAYS)),
            "o_shippriority": 0,
        }
        self.orders.append(order)
        into.change("orders", "insert", order)
        self.lines[key] = [self._line(order, number) for number in range(1, self.chance.randint(1, 7) + 1)]
        for line in self.lines[key]:
            into.change("lineitem", "insert", line)

    def _line(self, order: Row, number: int) -> Row:
        ordered = order["o_orderdate"]
        assert isinstance(ordered, date)
        return {
            "l_orderkey": order["o_orderkey"],
            "l_linenumber": number,
            "l_extendedprice": self.chance.randrange(90_000, 10_000_000),
            "l_discount": self.chance.randrange(11),
            "l_shipdate": ordered + timedelta(days=self.chance.randint(1, 121)),
        }

    def _update_order(self, changes: Round, order: Row) -> None:
        order["o_orderdate"] = FIRST_DAY + timedelta(days=self.chance.randrange(DAYS))
        order["o_shippriority"] = self.chance.randrange(3)
        changes.change("orders", "update", dict(order))

    def _update_line(self, changes: Round, order: Row) -> None:
        lines = self.lines[order["o_orderkey"]]
        at = self.chance.randrange(len(lines))
        lines[at] = self._line(order, at + 1)
        changes.change("lineitem", "update", lines[at])

    def _delete(self, changes: Round, at: int) -> None:
        order = self.orders[at]
        self.orders[at] = self.orders[-1]
        self.orders.pop()
        changes.change("orders", "delete", order)
        for line in self.lines.pop(order["o_orderkey"]):
            changes.change("lineitem", "delete", line)
