"""Random traces, joined by streams and by DuckDB: every join type must give the same rows.

A trace is two streams, cut into files; a batch reads one file of each side. No row is more than the watermark delay
behind an earlier one, so none is late, however the batches are cut. With odd seeds some rows are late in any case:
they are far behind and come after the first two batches, and DuckDB's input leaves them out. The last file of each
side has one row that moves the watermark past all others and matches nothing.

``STREAMJOIN_SEEDS`` is the number of traces, ``STREAMJOIN_FIRST_SEED`` the first of them.
"""

import random
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from conftest import seeds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery
from queries import settings
from side import START, TYPES, Row, Side

CLOSING_SECOND = 100_000
LONGEST = 20
CLOSING_VALUE = 9  # It passes every one-input conjunct, so only the bounds decide whether it stays.


@dataclass
class Bounds:
    """``rt`` lies between ``lt + low`` and ``lt + high``, in seconds; each end is included unless it is strict."""

    low: int
    high: int
    low_strict: bool
    high_strict: bool
    spelling: int

    def condition(self) -> str:
        """Return the bounds in SQL that Spark and DuckDB read alike."""
        if self.spelling == 0 and not (self.low_strict or self.high_strict):
            return f"rt BETWEEN lt + {_seconds(self.low)} AND lt + {_seconds(self.high)}"
        low, high = ">" if self.low_strict else ">=", "<" if self.high_strict else "<="
        if self.spelling == 1:
            return f"rt {low} lt + {_seconds(self.low)} AND rt - {_seconds(self.high)} {high} lt"
        return f"lt + {_seconds(self.high)} {_turned(high)} rt AND lt - {_seconds(-self.low)} {_turned(low)} rt"

    def closing_rows_kept(self, left: Side, right: Side) -> int:
        """Return how many closing rows stay in state: those that the other side, at its final watermark, may match."""
        keeps_left = -right.delay < self.high or (-right.delay == self.high and not self.high_strict)
        keeps_right = self.low < left.delay or (self.low == left.delay and not self.low_strict)
        return keeps_left + keeps_right


@dataclass
class Ends:
    """Rows of one side or of both carry their ends, some seconds after their own times.

    If one side carries them, the rows of the other end by ``low``: they are at least so many seconds later.
    """

    sides: str
    low: int
    strict: bool
    beyond: str

    def condition(self, meaning: bool = False) -> str:
        """Return the condition for Spark, or what it means, for DuckDB."""
        most = "<" if self.strict else "<="
        until = [f"{_other(side)}t {most} {self._end(side, meaning)}" for side in self.sides]
        if len(self.sides) == 1:
            until.append(f"{_other(self.sides)}t >= {self.sides}t + {_seconds(self.low)}")
        return " AND ".join(until)

    def _end(self, side: str, meaning: bool) -> str:
        """Return the end of a row: none for some, far away for others."""
        far = 40 if self.beyond == "fail" else CLOSING_SECOND // 2
        life = f"CASE {side}v WHEN 9 THEN {_seconds(far)} WHEN 4 THEN NULL ELSE {side}v * {_seconds(3)} END"
        if meaning and self.beyond == "cut":
            life = f"CASE WHEN {side}v = 4 THEN NULL ELSE least({life}, {_seconds(LONGEST)}) END"
        return f"{side}t + {life}"

    def settings(self) -> dict[str, str]:
        """Return what happens to rows whose ends are far away."""
        longest = {"spark.streamjoin.maxLifetime": f"{LONGEST}s"} if self.beyond == "cut" else {}
        return {"spark.streamjoin.beyondMaxLifetime": self.beyond} | longest

    def closing_rows_kept(self, left: Side, right: Side) -> int:
        """Return how many closing rows stay in state: each carries an end, or the other side may match it."""
        if len(self.sides) == 2:
            return 2
        return 1 + (self.low <= (left if self.sides == "l" else right).delay)


def _other(side: str) -> str:
    return "r" if side == "l" else "l"


def _seconds(count: int) -> str:
    return f"INTERVAL '{count}' SECOND"


def _turned(comparison: str) -> str:
    return comparison.replace(">", "?").replace("<", ">").replace("?", "<")


@dataclass
class Trace:
    """Two inputs and the condition that joins them."""

    left: Side
    right: Side
    bounds: Bounds | Ends
    more: str

    def condition(self) -> str:
        """Return the whole join condition."""
        return f"lk = rk AND {self.bounds.condition()}{self.more}"

    def meaning(self) -> str:
        """Return the condition that the batch join needs for the same rows."""
        if not isinstance(self.bounds, Ends):
            return self.condition()
        return f"lk = rk AND {self.bounds.condition(meaning=True)}{self.more}"


def random_trace(seed: int) -> Trace:
    """Return the trace of a seed."""
    chance = random.Random(seed)
    low = chance.choice([-15, -8, -5, -2, 0, 1, 4])
    high = low + chance.choice([2, 5, 15, 30])
    bounds = Bounds(low, high, chance.random() < 0.4, chance.random() < 0.4, chance.randrange(3))
    return _random_trace(chance, seed, bounds)


def random_trace_of_ends(seed: int) -> Trace:
    """Return the trace of a seed in which rows carry their ends."""
    chance = random.Random(seed)
    sides, beyond = chance.choice(["l", "r", "lr"]), chance.choice(["fail", "cut", "keep"])
    return _random_trace(chance, seed, Ends(sides, chance.choice([-5, 0, 3]), chance.random() < 0.5, beyond))


def _random_trace(chance: random.Random, seed: int, bounds: Bounds | Ends) -> Trace:
    more = chance.choice(
        ["", " AND lv < rv", " AND lv > 3", " AND rv > 2", " AND lv > 3 AND lv <> rv", " AND lv + rv < 14"]
    )
    return Trace(_random_side("l", chance, seed), _random_side("r", chance, seed), bounds, more)


def _random_side(name: str, chance: random.Random, seed: int) -> Side:
    delay = chance.choice([0, 2, 5, 10])
    keys = chance.choice([1, 2, 4])
    per_file = chance.choice([8, 25, 60])
    ids = iter(range(1_000_000))

    def key() -> int | None:
        return None if chance.random() < 0.1 else chance.randrange(keys)

    files: list[list[Row]] = []
    late: set[int] = set()
    for number in range(chance.choice([3, 4])):
        rows: list[Row] = []
        for i in range(chance.randint(1, per_file)):
            # The last row of a file may be the delay behind the newest possible row of the file
            # before.
            second = number * 12 + (chance.randint(-delay, 12) if number else chance.randint(0, 12))
            # Whole seconds make ties with each other and with the bounds; a microsecond breaks
            # them.
            at: datetime | None = START + timedelta(seconds=second, microseconds=chance.choice([0, 0, 0, 1]))
            if i == 0:
                at = START + timedelta(seconds=number * 12 + 6)  # every file moves the watermark
            elif chance.random() < 0.03:
                at = None
            elif number == 0 and chance.random() < 0.1:
                at = START - timedelta(seconds=chance.randint(1000, 1010))  # old, but nothing is late yet
            row = (key(), at, chance.randrange(10), next(ids))
            rows.append(row)
            if chance.random() < 0.1:
                rows.append((*row[:3], next(ids)))
        if seed % 2 and number >= 2:
            for _ in range(chance.randint(0, 4)):
                at = START - timedelta(seconds=chance.randint(1000, 1010))
                rows.append((key(), at, chance.randrange(10), next(ids)))
                late.add(rows[-1][3])
        chance.shuffle(rows)
        files.append(rows)
    closing_key = -1 if name == "l" else -2
    files.append([(closing_key, START + timedelta(seconds=CLOSING_SECOND), CLOSING_VALUE, next(ids))])
    return Side(name, delay, files, late)


@pytest.mark.usefixtures("watermark_before_filter")
@pytest.mark.parametrize("seed", seeds(1))
def test_same_rows_as_duckdb(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    _compare(random_trace(seed), spark, tmp_path, seed)


@pytest.mark.usefixtures("watermark_before_filter")
@pytest.mark.parametrize("seed", seeds(1))
def test_rows_that_carry_their_ends(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    trace = random_trace_of_ends(seed)
    assert isinstance(trace.bounds, Ends)
    with settings(spark, trace.bounds.settings()):
        _compare(trace, spark, tmp_path, seed)


def _compare(trace: Trace, spark: SparkSession, tmp_path: Path, seed: int) -> None:
    print(f"STREAMJOIN_FIRST_SEED={seed} STREAMJOIN_SEEDS=1: {trace.condition()}")
    left, right = trace.left.stream(spark, tmp_path), trace.right.stream(spark, tmp_path)
    # All types at once, because a small batch mostly waits.
    queries = {how: _start(left.join(right, F.expr(trace.condition()), how), how, tmp_path) for how in TYPES}
    for how, query in queries.items():
        query.awaitTermination()
        actual = Counter(tuple(row) for row in spark.table(f"oracle_{how}").collect())
        assert _open(actual) == _expected(trace, how), f"{how}: {trace.condition()}"
        _check_state(trace, how, query)


def _start(joined: DataFrame, how: str, folder: Path) -> StreamingQuery:
    # Ids tell which rows were emitted; their other columns follow from these.
    ids = joined.select([column for column in ("li", "lk", "ri", "rk") if column in joined.columns])
    writer = ids.writeStream.format("memory").queryName(f"oracle_{how}").trigger(availableNow=True)
    return writer.start(checkpointLocation=str(folder / how))


def _open(rows: Counter[tuple[int | None, ...]]) -> Counter[tuple[int | None, ...]]:
    """Leave out the closing rows."""
    return Counter({row: n for row, n in rows.items() if -1 not in row and -2 not in row})


def in_duckdb(trace: Trace, sql: str) -> list[tuple[Any, ...]]:
    """Return DuckDB's answer over the rows that are not late and not closing."""
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        for side in (trace.left, trace.right):
            rows = [row for file in side.files[:-1] for row in file if row[3] not in side.late]
            db.register(side.name, side.table(rows))
        return db.execute(sql).fetchall()


def _expected(trace: Trace, how: str) -> Counter[tuple[int | None, ...]]:
    columns = "li, lk" if how in ("left_semi", "left_anti") else "li, lk, ri, rk"
    return Counter(in_duckdb(trace, f"SELECT {columns} FROM l {TYPES[how]} JOIN r ON {trace.meaning()}"))


def _check_state(trace: Trace, how: str, query: StreamingQuery) -> None:
    """Check that only the closing rows stay in state, and that the late rows are counted."""
    ran = [batch for batch in query.recentProgress if batch.stateOperators]
    kept = ran[-1].stateOperators[0].numRowsTotal
    assert kept == trace.bounds.closing_rows_kept(trace.left, trace.right), f"{how}: {kept} rows in state"
    dropped = sum(batch.stateOperators[0].numRowsDroppedByWatermark for batch in ran)
    late = len(trace.left.late) + len(trace.right.late)
    # In other types Spark filters rows that cannot match, also late ones, before the join sees
    # them.
    assert dropped == late if how == "full_outer" else dropped <= late, f"{how}: {dropped} of {late} dropped"
