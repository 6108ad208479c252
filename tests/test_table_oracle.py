"""Random changelogs, looked up by streams and joined with each other, compared with a replay in plain Python.

A story has two tables and a stream. In each step a table gets a version, or the stream gets rows, or the queries are
stopped and restarted, sometimes with their last batch once more. Each batch of a look-up has to see the tables of
the time when it was planned, regardless of later versions. The changes of the join of both tables have to add up to
that join.

``STREAMJOIN_SEEDS`` is the number of stories, ``STREAMJOIN_FIRST_SEED`` the first of them.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest
from arranged_shop import Shop
from conftest import seeds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

import streamjoin as sj

STEPS = 9

How = Literal["inner", "left", "right", "full"]
Row = tuple[int | None, int | None, int]  # id, key and value
Rows = Counter[tuple[Any, ...]]

NOTHING: Row = (None, None, 0)


class Equality(NamedTuple):
    """How a row of the right side, ``b`` in SQL, matches one of the left side, ``a``."""

    sql: str
    holds: Callable[[Row, Row], bool]


EQUALITIES = [
    Equality("ak = bk", lambda a, b: a[1] is not None and a[1] == b[1]),
    Equality("bk <=> ak", lambda a, b: a[1] == b[1]),
    Equality("ak = bid", lambda a, b: a[1] is not None and a[1] == b[0]),
]
MORE = [
    Equality("true", lambda a, b: True),
    Equality("av <> 1", lambda a, b: a[2] != 1),
    Equality("bv < 2", lambda a, b: b[2] < 2),
    Equality("bv < 2 AND ak > 1", lambda a, b: b[2] < 2 and a[1] is not None and a[1] > 1),
]


@dataclass
class Table:
    """A changelog, the query that maintains its arrangement, and its rows at each version."""

    shop: Shop
    name: str
    chance: random.Random
    versions: list[dict[int | None, Row]] = field(default_factory=list)
    clock: int = 0

    def __post_init__(self) -> None:
        stream = self.shop.stream(self.name, "id INT, k INT, v INT, seq INT, op STRING")
        writer = sj.arrange(stream, self.name, [["id"], ["k"]], op="op", time="seq")
        self.query = writer.start(checkpointLocation=self.shop.checkpoint(self.name))

    def change(self) -> None:
        """Change some rows: one more version."""
        rows = dict(self.versions[-1]) if self.versions else {}
        changes = [self._change(rows) for _ in range(self.chance.randint(1, 5))]
        self.chance.shuffle(changes)
        self.shop.feed(self.name, *changes)
        self.query.processAllAvailable()
        self.versions.append(rows)

    def _change(self, rows: dict[int | None, Row]) -> dict[str, Any]:
        self.clock += 1
        number, key = self.chance.choice([None, 1, 2, 3, 4, 5]), self.chance.choice([None, 1, 2, 3])
        row = (number, key, self.chance.randrange(3))
        op = self.chance.choice(["insert", "update", "delete"])
        if op == "delete":
            rows.pop(number, None)
        else:
            rows[number] = row
        return {"id": number, "k": key, "v": row[2], "seq": self.clock, "op": op}

    def at(self, version: int) -> list[Row]:
        """Return the rows at a version; there are none before the first."""
        return list(self.versions[version].values()) if version >= 0 else []

    def named(self, prefix: str, which: Literal["current", "previous"] = "current") -> DataFrame:
        """Return the table with a prefix before its column names."""
        return sj.table(self.name, version=which).drop("seq").toDF(f"{prefix}id", f"{prefix}k", f"{prefix}v")


class Running:
    """A query with its checkpoint, and the rows of each of its batches."""

    def __init__(self, shop: Shop, name: str, df: DataFrame) -> None:
        self.batches: dict[int, Rows] = {}
        writer = df.writeStream.foreachBatch(self._take).option("checkpointLocation", shop.checkpoint(name))
        self._start, self._commits = writer.start, Path(shop.checkpoint(name)) / "commits"
        self._query: StreamingQuery = self._start()

    def _take(self, batch: DataFrame, number: int) -> None:
        rows = Rows(tuple(row) for row in batch.collect())
        assert self.batches.setdefault(number, rows) == rows, f"batch {number} gave other rows when it ran again"

    def settle(self) -> None:
        """Process everything that is available."""
        self._query.processAllAvailable()

    def restart(self, again: bool) -> None:
        """Stop and start, with the last batch once more if ``again``."""
        self._query.stop()
        if again and self.batches:
            number = max(self.batches)
            (self._commits / str(number)).unlink(missing_ok=True)
            (self._commits / f".{number}.crc").unlink(missing_ok=True)
        self._query = self._start()


def joined(left: list[Row], right: list[Row], how: How, condition: list[Equality]) -> Rows:
    """Join by comparing all rows with each other."""
    pairs = [(a, b) for a in left for b in right if all(part.holds(a, b) for part in condition)]
    rows = Rows((a[0], a[2], b[0], b[2]) for a, b in pairs)
    if how in ("left", "full"):
        rows.update((a[0], a[2], None, None) for a in left if all(a is not matched for matched, _ in pairs))
    if how in ("right", "full"):
        rows.update((None, None, b[0], b[2]) for b in right if all(b is not matched for _, matched in pairs))
    return rows


@dataclass
class LookUp:
    """A join of the stream, side ``a``, with a table, and the expected rows of each of its batches."""

    shop: Shop
    number: int
    table: Table
    chance: random.Random
    expected: list[Rows] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.how: How = self.chance.choice(["inner", "left", "right"])
        self.which: Literal["current", "previous"] = self.chance.choice(["current", "previous"])
        self.condition = [self.chance.choice(EQUALITIES), self.chance.choice(MORE)]
        stream = self.shop.stream("facts", "aid INT, ak INT, av INT")
        on, table = F.expr(" AND ".join(part.sql for part in self.condition)), self.table.named("b", self.which)
        join = sj.join(table, stream, on, "right") if self.how == "right" else sj.join(stream, table, on, self.how)
        self.running = Running(self.shop, f"look-up-{self.number}", join.select("aid", "av", "bid", "bv"))

    def look_up(self, facts: list[Row]) -> None:
        """Look up new rows, in a batch of their own."""
        version = len(self.table.versions) - (2 if self.which == "previous" else 1)
        # All rows of the stream are preserved, whichever side it is on.
        kept: How = "inner" if self.how == "inner" else "left"
        self.expected.append(joined(facts, self.table.at(version), kept, self.condition))
        self.running.settle()

    def check(self, words: str) -> None:
        """Compare batch by batch."""
        seen = [self.running.batches[number] for number in sorted(self.running.batches)]
        assert seen == self.expected, f"{words}: {self.how}, {self.which}, {self.condition}"


@pytest.fixture
def seldom_polling(spark: SparkSession) -> Iterator[None]:
    """Let idle queries use less processor time."""
    spark.conf.set("spark.sql.streaming.pollingDelay", "100ms")
    yield
    spark.conf.unset("spark.sql.streaming.pollingDelay")


@pytest.mark.usefixtures("seldom_polling")
@pytest.mark.parametrize("seed", seeds(1))
def test_a_replay_in_python_says_the_same(shop: Shop, seed: int) -> None:
    chance = random.Random(seed)
    a, b = Table(shop, "a", chance), Table(shop, "b", chance)
    look_ups = [LookUp(shop, number, chance.choice([a, b]), chance) for number in range(2)]
    how: How = chance.choice(["inner", "left", "right", "full"])
    condition = [EQUALITIES[0], chance.choice(MORE), chance.choice(MORE)]
    on = F.expr(" AND ".join(part.sql for part in condition))
    changes = sj.join(a.named("a"), b.named("b"), on, how).select("aid", "av", "bid", "bv", "_diff")
    both = Running(shop, "both", changes)
    facts = 0
    for _ in range(STEPS):
        action = chance.choice(["a", "b", "facts", "facts", "restart"])
        if action == "restart":
            for query in [both, *(look_up.running for look_up in look_ups)]:
                query.restart(again=chance.random() < 0.5)
        elif action == "facts":
            rows: list[Row] = [
                (facts + i, chance.choice([None, 1, 2, 3, 4]), chance.randrange(3)) for i in range(chance.randint(1, 4))
            ]
            facts += len(rows)
            shop.feed("facts", *(dict(zip(("aid", "ak", "av"), row, strict=True)) for row in rows))
            for look_up in look_ups:
                look_up.look_up(rows)
        else:
            (a if action == "a" else b).change()
            both.settle()
    for query in [both, *(look_up.running for look_up in look_ups)]:
        query.settle()
    for look_up in look_ups:
        look_up.check(f"seed {seed}")
    sums = Rows()
    for number in sorted(both.batches):
        for row, times in both.batches[number].items():
            assert times == 1, f"seed {seed}: batch {number} has a row twice"
            sums[row[:-1]] += row[-1]
        assert min(sums.values(), default=0) >= 0, f"seed {seed}: more rows were removed than added"
    expected = joined(a.at(len(a.versions) - 1), b.at(len(b.versions) - 1), how, condition)
    assert +sums == expected, f"seed {seed}: {how}, {condition}"
