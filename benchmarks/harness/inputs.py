"""What a benchmark reads: streams as files, one per batch, and DuckDB's answer on them.

All chance comes from MD5 of a row's number, so the same parameters give the same rows on every machine and with every
version of DuckDB. Event times run from the start of 2026. A row arrives up to the disorder after its time; files hold
rows in the order of arrival, and their modification times, which Spark's file source follows, are a second apart. A
last file of each stream has one row far in the future, so that the watermarks pass everything else and all of it leaves
the state.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Literal

import duckdb

JoinType = Literal["inner", "left_outer"]

START = "TIMESTAMPTZ '2026-01-01 00:00:00+00'"
FAR = "TIMESTAMPTZ '2026-01-31 00:00:00+00'"
MICROS_PER_ROW = 5_000
DISORDER_MICROS = 10_000_000
FIRST_FILE_TIME = 1_767_225_600  # seconds; any fixed moment, not "now": it must not make files differ
PART_ROWS = 4_000_000


@dataclass(frozen=True)
class Table:
    """One of the streams.

    Attributes:
        name: its folder.
        row_id: the column that numbers its rows, from 0; that of the closing row is negative.
        key: the column that is compared with the other stream's key; empty if there is none.
        time: the event-time column.
        rows: SQL of its rows, with two more columns: ``batch``, the number of the file, and ``place``, the order.
        closing: SQL of its last row, without those two.
    """

    name: str
    row_id: str
    key: str
    time: str
    rows: str
    closing: str

    def parts(self) -> Iterator[tuple[str, int | None]]:
        """Yield SQL of some of the rows, and how many files are complete then; None: all there are."""
        yield self.rows, None


@dataclass(frozen=True)
class LongTable(Table):
    """A stream that is written in parts, because it may be larger than the memory.

    Its SQL has the numbers of rows from ``{first}`` to before ``{until}``. A row arrives at its number's time or later.

    Attributes:
        numbers: how many.
        file_numbers: the numbers whose time is that of one file.
    """

    numbers: int
    file_numbers: int

    def parts(self) -> Iterator[tuple[str, int | None]]:
        """Yield SQL of some of the rows, and how many files are complete then."""
        step = max(1, PART_ROWS // self.file_numbers) * self.file_numbers
        for first in range(0, self.numbers, step):
            until = min(first + step, self.numbers)
            yield self.rows.format(first=first, until=until), until // self.file_numbers


@dataclass(frozen=True)
class Streams:
    """Two streams and what joins them.

    Attributes:
        name: of the folder, together with a digest of all the rest.
        left: the side that a left outer join preserves.
        right: the other one.
        bound: the condition on the event times, in SQL for both Spark and DuckDB.
        delay_ms: the delay of both watermarks.
    """

    name: str
    left: Table
    right: Table
    bound: str
    delay_ms: int

    @property
    def tables(self) -> tuple[Table, ...]:
        """All streams, in the order in which they are joined."""
        return (self.left, self.right)

    @property
    def conditions(self) -> tuple[str, ...]:
        """The whole condition of each join."""
        return (self.condition,)

    @property
    def condition(self) -> str:
        """The whole condition of the first join."""
        return f"{self.left.key} = {self.right.key} AND {self.bound}" if self.has_key else self.bound

    @property
    def has_key(self) -> bool:
        """Whether the condition has an equality."""
        return bool(self.left.key)

    @property
    def full_name(self) -> str:
        """A name that only identical streams share."""
        return f"{self.name}-{hashlib.sha256(repr(astuple(self)).encode()).hexdigest()[:8]}"

    def folder(self, work: Path) -> Path:
        """Return where the files of these streams are."""
        return work / "inputs" / self.full_name


@dataclass(frozen=True)
class Chain(Streams):
    """Two streams whose join is joined with a third one.

    Attributes:
        third: the stream that the second join reads.
        then: the whole condition of the second join.
    """

    third: Table
    then: str

    @property
    def tables(self) -> tuple[Table, ...]:
        """All streams, in the order in which they are joined."""
        return (self.left, self.right, self.third)

    @property
    def conditions(self) -> tuple[str, ...]:
        """The whole condition of each join."""
        return (self.condition, self.then)


def generate(streams: Streams, work: Path) -> Path:
    """Write the files of all streams unless they exist, and return their folder."""
    folder = streams.folder(work)
    if folder.exists():
        return folder
    unfinished = folder.with_name(f"{folder.name}-unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    with connect() as db:
        files = [_write(db, table, unfinished / table.name) for table in streams.tables]
    # Each batch reads a file of each stream: with fewer of one, the streams would end at
    # different batches.
    assert len(set(files)) == 1, f"{streams.name}: {files} files"
    unfinished.rename(folder)
    return folder


def _write(db: duckdb.DuckDBPyConnection, table: Table, folder: Path) -> int:
    folder.mkdir(parents=True)
    written = 0
    for rows, complete in table.parts():
        # Some rows of a part may belong to files that the next part completes.
        into = "INSERT INTO cut" if written else "CREATE OR REPLACE TEMP TABLE cut AS"
        db.execute(f"{into} {rows}")
        until = complete or numbers(db, "SELECT max(batch) + 1 FROM cut")[0]
        for batch in range(written, until):
            found = f"SELECT * EXCLUDE (batch, place) FROM cut WHERE batch = {batch} ORDER BY place, {table.row_id}"
            _copy(db, found, folder, batch)
        db.execute(f"CREATE OR REPLACE TEMP TABLE cut AS FROM cut WHERE batch >= {until}")
        written = until
    _copy(db, table.closing, folder, written)
    return written


def _copy(db: duckdb.DuckDBPyConnection, rows: str, folder: Path, batch: int) -> None:
    file = folder / f"{batch:04}.parquet"
    db.execute(f"COPY ({rows}) TO '{file}' (FORMAT parquet)")
    os.utime(file, (FIRST_FILE_TIME + batch, FIRST_FILE_TIME + batch))


def expected_join(streams: Streams, how: JoinType, work: Path) -> list[int]:
    """Return how many rows DuckDB's batch join has, and how many of them with a row of the last stream."""
    kind = "LEFT JOIN" if how == "left_outer" else "JOIN"
    first, *others = streams.tables
    # The closing row of the left side stays in the state forever.
    rows = f"(FROM '{{folder}}/{first.name}/*.parquet' WHERE {first.row_id} >= 0)"
    for table, condition in zip(others, streams.conditions, strict=True):
        rows += f" {kind} '{{folder}}/{table.name}/*.parquet' ON {condition}"
    select = f"SELECT count(*), count({others[-1].row_id})"
    return _remembered(streams, work, how, f"{select} FROM {rows}")


def expected_asof(streams: Streams, work: Path) -> list[int]:
    """Return how many rows DuckDB's as-of join has, left rows without a match included, and how many with one."""
    left, right = (f"(FROM '{{folder}}/{table.name}/*.parquet' WHERE {table.row_id} >= 0)" for table in streams.tables)
    select = f"SELECT count(*), count({streams.right.row_id})"
    return _remembered(streams, work, "asof", f"{select} FROM {left} ASOF LEFT JOIN {right} ON {streams.condition}")


def expected_union(streams: Streams, work: Path) -> list[int]:
    """Return how many rows all streams have, closing rows included, and how many of them the last one has."""
    counts = [f"(SELECT count(*) FROM '{{folder}}/{table.name}/*.parquet')" for table in streams.tables]
    return _remembered(streams, work, "union", f"SELECT {' + '.join(counts)}, {counts[-1]}")


def _remembered(streams: Streams, work: Path, name: str, query: str) -> list[int]:
    """Run a query over the streams' files once, and keep its result next to them."""
    folder = streams.folder(work)
    file = folder / f"expected-{name}.json"
    if not file.exists():
        with connect() as db:
            file.write_text(json.dumps(numbers(db, query.format(folder=folder))))
    found: list[int] = json.loads(file.read_text())
    return found


def connect() -> duckdb.DuckDBPyConnection:
    """Return a database with the macro ``draw``: a number below another one, by an id and a seed."""
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    # Spark's name, for SQL that both run.
    db.execute("CREATE MACRO timestamp_micros(micros) AS make_timestamptz(micros)")
    db.execute("CREATE MACRO draw(id, seed, below) AS (md5_number_lower(concat(id, '-', seed)) % below)::BIGINT")
    return db


def numbers(db: duckdb.DuckDBPyConnection, query: str) -> list[int]:
    """Return the numbers of the first row of a query."""
    row: tuple[Any, ...] | None = db.execute(query).fetchone()
    assert row is not None
    return [int(number) for number in row]
