"""Random chains of joins, by streams and by DuckDB: rows that were not late must give the same result.

Three or four streams drift apart, are out of order and sometimes stop; the joins are of all types, left-deep,
right-deep and bushy. The query itself reports which rows were late (``sj.late_rows``), and DuckDB gets the others.

``STREAMJOIN_SEEDS`` is the number of chains, ``STREAMJOIN_FIRST_SEED`` the first of them.
"""

import random
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import duckdb
import pytest
from conftest import seeds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery
from queries import settings
from side import START, TYPES, Row, Side

import streamjoin as sj

SEEDS = seeds(1)
AT_ONCE = 4  # a small batch mostly waits
BATCHES = 6
CLOSING_SECOND = 100_000

Ids = Counter[tuple[int | None, ...]]


@dataclass
class Node:
    """A join, or an input if ``how`` is empty."""

    left: "Node | None"
    right: "Node | None"
    how: str
    condition: str
    visible: list[str]

    def stream(self, inputs: dict[str, DataFrame]) -> DataFrame:
        """Return the query."""
        if self.left is None or self.right is None:
            return inputs[self.visible[0]]
        return self.left.stream(inputs).join(self.right.stream(inputs), F.expr(self.condition), self.how)

    def sql(self) -> str:
        """Return the query as a relation for DuckDB."""
        if self.left is None or self.right is None:
            return self.visible[0]
        columns = ", ".join(name + column for name in self.visible for column in "ktvi")
        joined = f"{self.left.sql()} {TYPES[self.how]} JOIN {self.right.sql()} ON {self.condition}"
        return f"(SELECT {columns} FROM {joined})"

    def __str__(self) -> str:
        return f"({self.left} {self.how} {self.right} ON {self.condition})" if self.how else self.visible[0]


class Chain:
    """The chain of a seed: its joins and the files of its streams."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        a, b, c, e = (Node(None, None, "", "", [name]) for name in "lmnr")
        shape = self.chance.randrange(3)
        if shape == 0:
            self.tree = self._join(self._join(a, b), c)
        elif shape == 1:
            self.tree = self._join(a, self._join(b, c))
        else:
            self.tree = self._join(self._join(a, b), self._join(c, e))
        self.sides = [self._side(name) for name in ("lmn" if shape < 2 else "lmnr")]

    def _join(self, left: Node, right: Node) -> Node:
        how = self.chance.choice(list(TYPES))
        one, other = self.chance.choice(left.visible), self.chance.choice(right.visible)
        low = self.chance.randint(-20, 10)
        high = low + self.chance.randint(0, 30)
        # The sum of the ids holds for all pairs: it keeps the ids in the rows of each join, also in
        # late ones.
        condition = (
            f"{one}k = {other}k AND {one}i + {other}i >= 0 AND {other}t BETWEEN "
            f"{one}t + INTERVAL '{low}' SECOND AND {one}t + INTERVAL '{high}' SECOND"
        )
        condition += self.chance.choice(
            ["", "", f" AND {one}v + {other}v < 13", f" AND {one}v > 1", f" AND {other}v > 1"]
        )
        visible = left.visible + ([] if how in ("left_semi", "left_anti") else right.visible)
        return Node(left, right, how, condition, visible)

    def _side(self, name: str) -> Side:
        chance = self.chance
        delay, spread = chance.choice([0, 5, 15]), chance.choice([3, 15, 30])
        now = chance.randint(0, 20)
        files: list[list[Row]] = []
        ids = iter(range(1_000_000))
        for _ in range(BATCHES):
            rows: list[Row] = []
            if chance.random() > 0.3:  # else it stops
                now += chance.randint(0, 30)
                for _ in range(chance.randint(1, 12)):
                    at = START + timedelta(
                        seconds=now - chance.randint(0, spread), microseconds=chance.choice([0, 0, 1])
                    )
                    key = None if chance.random() < 0.05 else chance.randrange(3)
                    rows.append((key, None if chance.random() < 0.03 else at, chance.randrange(10), next(ids)))
            files.append(rows)
        # A row past all others, which matches nothing; in two files, so that the rows it releases
        # are emitted.
        key = -1 - "lmnr".index(name)
        for number in (1, 2):
            files.append([(key, START + timedelta(seconds=CLOSING_SECOND * number), 9, -number)])
        return Side(name, delay, files, late=set())

    def start(self, spark: SparkSession, folder: Path) -> StreamingQuery:
        """Start the query, which ends with its files."""
        folder.mkdir()
        joined = self.tree.stream({side.name: side.stream(spark, folder) for side in self.sides})
        ids = joined.select([f"{name}i" for name in self.tree.visible])
        writer = ids.writeStream.format("memory").queryName(f"chain_{self.seed}").trigger(availableNow=True)
        return writer.start(checkpointLocation=str(folder / "checkpoint"))

    def late(self, query: StreamingQuery) -> dict[str, set[int]]:
        """Return the ids of the late rows, by stream; every late row comes from exactly one."""
        late: dict[str, set[int]] = {side.name: set() for side in self.sides}
        ids = F.from_json("row", ", ".join(f"{name}i INT" for name in late)).alias("ids")
        for row in sj.late_rows(query).select(ids).collect():
            found = {name: row.ids[f"{name}i"] for name in late if row.ids[f"{name}i"] is not None}
            assert len(found) == 1, f"a joined row was dropped: {found}"
            for name, row_id in found.items():
                assert row_id not in late[name], f"{name} {row_id} was kept twice as late"
                late[name].add(row_id)
        return late

    def expected(self, late: dict[str, set[int]]) -> Ids:
        """Return DuckDB's answer over the rows that are not late and not closing."""
        with duckdb.connect() as db:
            for side in self.sides:
                rows = [row for file in side.files for row in file if row[3] >= 0 and row[3] not in late[side.name]]
                db.register(side.name, side.table(rows))
            columns = ", ".join(f"{name}i" for name in self.tree.visible)
            return Counter(db.execute(f"SELECT {columns} FROM {self.tree.sql()}").fetchall())


@pytest.mark.parametrize("first", SEEDS[::AT_ONCE])
def test_same_rows_as_duckdb(spark: SparkSession, tmp_path: Path, first: int) -> None:
    chains = [Chain(seed) for seed in SEEDS if first <= seed < first + AT_ONCE]
    with settings(spark, {"spark.streamjoin.lateRows": "keep"}):
        queries = [chain.start(spark, tmp_path / str(chain.seed)) for chain in chains]
    for chain, query in zip(chains, queries, strict=True):
        print(f"STREAMJOIN_FIRST_SEED={chain.seed} STREAMJOIN_SEEDS=1: {chain.tree}")
        query.awaitTermination()
        seen = Counter(tuple(row) for row in spark.table(f"chain_{chain.seed}").collect())
        actual = Counter({row: n for row, n in seen.items() if all(i is None or i >= 0 for i in row)})
        late = chain.late(query)
        assert actual == chain.expected(late), f"seed {chain.seed}: {chain.tree}, late: {late}"
        dropped = sum(s.numRowsDroppedByWatermark for p in query.recentProgress for s in p.stateOperators)
        assert dropped == sum(map(len, late.values()))
