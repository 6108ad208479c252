"""Random changelogs, kept as arrangements and joined by a delta join and by DuckDB: equal after every step.

A story has two to four inputs. In each step some of them get a few changes: rows are inserted, updated and deleted by
primary key, some keys more than once, some never seen. Some changes are late: in a later file than newer changes of
their key, or than its deletion. A maintaining query may be stopped and restarted. DuckDB applies the same changes to
plain tables and joins them from scratch; the delta join emits only changes, which have to add up to DuckDB's rows.

``STREAMJOIN_SEEDS`` is the number of stories, ``STREAMJOIN_FIRST_SEED`` the first of them.
"""

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import LONG, seeds
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

import streamjoin as sj

STEPS = 5 if LONG else 4
SCHEMA = "id INT, k INT, v INT, s STRING, seq INT, pos INT, op STRING"
TYPES = {"INT": pa.int32(), "STRING": pa.string()}
COLUMNS = pa.schema([(name, TYPES[of]) for name, of in (column.split() for column in SCHEMA.split(", "))])

Change = tuple[int | None, int | None, int, str, int, int, str]


@dataclass
class Input:
    """A changelog: its files, the query that maintains its arrangement, and its table in DuckDB."""

    name: str
    folder: Path
    writer: DataStreamWriter
    per_time: int
    clock: int = 0
    files: int = 0
    used: set[int] = field(default_factory=set)
    last: dict[int | None, Change] = field(default_factory=dict)
    """The last change of each key, of whatever file."""

    def start(self) -> None:
        self.maintainer: StreamingQuery = self.writer.start()

    @property
    def rows(self) -> list[Change]:
        return [change for change in self.last.values() if change[6] != "delete"]

    def feed(self, chance: random.Random) -> None:
        """Write one file of changes, and wait until it is a version."""
        changes = [self._change(chance) for _ in range(chance.randint(1, 8))]
        for change in changes:
            known = self.last.get(change[0])
            if known is None or known[5] < change[5]:
                self.last[change[0]] = change
        chance.shuffle(changes)
        self.files += 1
        written = self.folder.parent / f"{self.name}-{self.files}"
        pq.write_table(pa.table(list(map(list, zip(*changes, strict=True))), schema=COLUMNS), written)
        written.rename(self.folder / f"{self.files}.parquet")
        if chance.random() < 0.2:
            self.maintainer.stop()
            self.start()
        self.maintainer.processAllAvailable()

    def _change(self, chance: random.Random) -> Change:
        self.clock += 10
        earlier = set(range(max(1, self.clock - 200), self.clock)) - self.used
        pos = chance.choice(sorted(earlier)) if chance.random() < 0.4 else self.clock
        self.used.add(pos)
        return (
            chance.choice([None, 1, 2, 3, 4, 5, 6]),
            chance.choice([None, 1, 2, 3]),
            chance.randrange(4),
            chance.choice(["", "a", "b"]),
            pos // self.per_time,
            pos,
            chance.choice(["insert", "insert", "update", "delete"]),
        )

    def load(self, database: duckdb.DuckDBPyConnection) -> None:
        """Create the expected table."""
        database.execute(f"CREATE OR REPLACE TABLE {self.name} (id INT, k INT, v INT, s VARCHAR, seq INT)")
        if self.rows:
            database.executemany(f"INSERT INTO {self.name} VALUES (?, ?, ?, ?, ?)", [row[:5] for row in self.rows])


def _condition(names: list[str], chance: random.Random) -> str:
    """Return a condition that ties each input to an earlier one, in SQL that Spark and DuckDB read alike."""
    parts = []
    for i, name in enumerate(names[1:], 1):
        other = chance.choice(names[:i])
        mine, its = chance.choice(["id", "k"]), chance.choice(["id", "k"])
        equal = chance.choice(["=", "=", "=", "IS NOT DISTINCT FROM"])
        parts.append(f"{name}.{mine} {equal} {other}.{its}")
    one, two = chance.choice(names), chance.choice(names)
    more = [f"{one}.v <> 1", f"{one}.v <= {two}.v + 1", f"{one}.s < 'b'", f"{one}.k + {two}.k < 5 OR {one}.s = {two}.s"]
    parts += chance.sample(more, chance.randint(0, 2))
    return " AND ".join(f"({part})" for part in parts)


@pytest.mark.parametrize("seed", seeds(1))
def test_the_changes_add_up_to_what_duckdb_joins(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    database = duckdb.connect()
    names = [f"t{i}" for i in range(chance.randint(2, 4))]
    inputs: list[Input] = []
    for name in names:
        folder = tmp_path / name / "files"
        folder.mkdir(parents=True)
        stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))
        per_time = chance.choice([1, 15])
        order = "pos" if per_time > 1 else None
        kept = str(tmp_path / name / "arrangement")
        writer = sj.arrange(stream, kept, keys=[["id"], ["k"]], op="op", time="seq", order=order)
        writer = writer.option("checkpointLocation", str(tmp_path / name / "checkpoint"))
        inputs.append(Input(name, folder, writer, per_time))
        inputs[-1].start()
        inputs[-1].feed(chance)
    on = _condition(names, chance)
    select = [f"{name}.{column} AS {name}_{column}" for name in names for column in ("id", "v", "s")]
    joined = sj.delta_join(
        {name: str(tmp_path / name / "arrangement") for name in names},
        on=on,
        select=select,
        max_versions_per_trigger=chance.choice([None, 1, 2]),
        max_rows_per_trigger=chance.choice([None, 3]),
        spark=spark,
    )
    sink = f"delta_{seed}"
    writer = joined.writeStream.format("memory").queryName(sink)
    reader = writer.start(checkpointLocation=str(tmp_path / "checkpoint"))
    for step in range(STEPS):
        reader.processAllAvailable()
        for each in inputs:
            each.load(database)
        expected = Counter(
            database.execute(f"SELECT {', '.join(select)} FROM {', '.join(names)} WHERE {on}").fetchall()
        )
        seen: Counter[tuple[object, ...]] = Counter()
        for row in spark.table(sink).drop("_time").collect():
            seen[tuple(row)[:-1]] += row["_diff"]
        wrong = {row: seen[row] - expected[row] for row in seen | expected if seen[row] != expected[row]}
        assert not wrong, f"seed {seed}, step {step}, {on}: {wrong}"
        for each in inputs:
            for _ in range(chance.choice([0, 0, 1, 3])):
                each.feed(chance)
