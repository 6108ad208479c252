"""The streams of the benchmarks: deterministic, made by DuckDB, cut into one Parquet file per batch.

All chance comes from MD5 of a row's number, so the same parameters give the same rows on every machine and with every
version of DuckDB. Event times run from the start of 2026 with 200 rows a second (the hot key: 100). A row arrives up to
the disorder after its time; files hold rows in the order of arrival, and their modification times, which Spark's file
source follows, are a second apart. A last file of each stream has one row far in the future, so that the watermarks
pass everything else and all of it leaves the state.
"""

import hashlib
import json
import os
import shutil
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import duckdb

JoinType = Literal["inner", "left_outer"]

START = "TIMESTAMPTZ '2026-01-01 00:00:00+00'"
FAR = "TIMESTAMPTZ '2026-01-31 00:00:00+00'"
MICROS_PER_ROW = 5_000
DISORDER_MICROS = 10_000_000
FIRST_FILE_TIME = 1_767_225_600  # seconds; any fixed moment, not "now": it must not make files differ


@dataclass(frozen=True)
class Table:
    """One of the two streams.

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
    def condition(self) -> str:
        """The join's whole condition."""
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


def w2(orders: int, batch_rows: int, bound_ms: int, payload: bool = False) -> Streams:
    """Return orders and the deliveries of nine tenths of them, each up to one and a half bounds after its order.

    Both streams are cut into the same number of files of equal numbers of rows: deliveries, which take longer, run
    ahead of orders in event time.

    Args:
        orders: how many.
        batch_rows: orders in a file.
        bound_ms: a delivery counts from the time of its order to so much later, milliseconds.
        payload: whether orders carry a string of 1 KiB.
    """
    wide = ", array_to_string([md5(concat(order_rows.range, '-', each)) for each in range(32)], '') AS payload"
    order_rows = f"""
        SELECT range AS order_id, {_time("range")} AS order_time,
               'customer-' || (range % 10007) AS customer, (range * 7919) % 20000 AS cents{wide if payload else ""}
        FROM range({orders}) AS order_rows"""
    delivery_rows = f"""
        SELECT order_id AS delivery_id, order_id AS delivered_order_id,
               order_time + to_microseconds(draw(order_id, 1, {bound_ms * 1500})) AS delivery_time,
               'courier-' || (order_id % 101) AS courier
        FROM ({order_rows}) WHERE draw(order_id, 2, 10) < 9"""
    cut = f"(place * {orders} // (count(*) OVER () * {batch_rows}))"
    return Streams(
        name=f"w2-{orders}-{batch_rows}{'-wide' if payload else ''}",
        left=_orders(_cut(order_rows, "order_time", "order_id", cut), payload),
        right=_deliveries(_cut(delivery_rows, "delivery_time", "delivery_id", cut)),
        bound=f"delivery_time >= order_time AND delivery_time <= order_time + INTERVAL {bound_ms} MILLISECONDS",
        delay_ms=DISORDER_MICROS // 1000,
    )


def w2f(orders: int, batch_rows: int, items: int) -> Streams:
    """Return orders and as many clicks on the same few items: many rows a key, of which few are near in time.

    Args:
        orders: how many, and how many clicks.
        batch_rows: orders in a file, and clicks in one.
        items: how many different keys.
    """
    order_rows = _item_order_rows(orders, items)
    click_rows = f"""
        SELECT range AS click_id, draw(range, 2, {items}) AS clicked_item, {_time("range")} AS click_time,
               'page-' || (range % 101) AS page
        FROM range({orders})"""
    return Streams(
        name=f"w2f-{orders}-{batch_rows}",
        left=_item_orders(_cut(order_rows, "order_time", "order_id", f"(place // {batch_rows})")),
        right=_clicks(_cut(click_rows, "click_time", "click_id", f"(place // {batch_rows})")),
        bound=_within("click_time", "order_time", 5_000),
        delay_ms=DISORDER_MICROS // 1000,
    )


def priced(orders: int, batch_rows: int, versions: int) -> Streams:
    """Return orders, and as many prices of their items: each item has so many, one after the other.

    Args:
        orders: how many, and how many prices.
        batch_rows: orders in a file, and prices in one.
        versions: prices of an item; the first tenth of the orders finds one for some items only if there are ten.
    """
    items = orders // versions
    order_rows = _item_order_rows(orders, items)
    # Each run of as many prices as there are items has one of each: 7919 is prime, and no divisor
    # of their number.
    price_rows = f"""
        SELECT range AS price_id, (range * 7919) % {items} AS priced_item, {_time("range")} AS since,
               draw(range, 2, 20000) AS cents, 'supplier-' || (range % 101) AS supplier
        FROM range({orders})"""
    cut = f"(place // {batch_rows})"
    closing = f"SELECT -1::BIGINT AS price_id, -2::BIGINT AS priced_item, {FAR} AS since, 0::BIGINT AS cents"
    return Streams(
        name=f"priced-{orders}-{batch_rows}-{versions}",
        left=_item_orders(_cut(order_rows, "order_time", "order_id", cut)),
        right=Table(
            "prices",
            "price_id",
            "priced_item",
            "since",
            _cut(price_rows, "since", "price_id", cut),
            f"{closing}, '' AS supplier",
        ),
        bound="order_time >= since",
        delay_ms=DISORDER_MICROS // 1000,
    )


def band(orders: int, batch_rows: int) -> Streams:
    """Return orders and as many clicks, 20 of each a second, that are joined by nothing but their times, ±1 s.

    Args:
        orders: how many, and how many clicks.
        batch_rows: orders in a file, and clicks in one.
    """
    time = f"{START} + to_microseconds(range * {10 * MICROS_PER_ROW})"
    order_rows = f"SELECT range AS order_id, {time} AS order_time FROM range({orders})"
    click_rows = f"SELECT range AS click_id, {time} AS click_time FROM range({orders})"
    cut = f"(place // {batch_rows})"
    left = _cut(order_rows, "order_time", "order_id", cut)
    right = _cut(click_rows, "click_time", "click_id", cut)
    closing = f"SELECT -1::BIGINT AS order_id, {FAR} AS order_time"
    # Far from the closing order too, for no key tells the two apart.
    closing_click = f"SELECT -1::BIGINT AS click_id, {FAR} + INTERVAL 1 HOUR AS click_time"
    return Streams(
        name=f"band-{orders}-{batch_rows}",
        left=Table("orders", "order_id", "", "order_time", left, closing),
        right=Table("clicks", "click_id", "", "click_time", right, closing_click),
        bound=_within("click_time", "order_time", 1_000),
        delay_ms=DISORDER_MICROS // 1000,
    )


def history(days: int, has_key: bool, following: bool = False) -> Streams:
    """Return orders and clicks of the days before the start, an order and a click each 2.5 s, all in one file.

    Nine tenths of the clicks are on the item of the order with their number, up to 8 s after it; ±5 s count, or 5 s.

    Args:
        days: how many.
        has_key: whether a click has to be on the item of its order.
        following: whether a click has to come after its order.
    """
    rows = days * 24 * 3600 * 2 // 5
    time = f"{START} - to_microseconds(({rows} - range) * 2500000)"
    item = "(CASE WHEN draw(range, 4, 10) < 9 THEN draw(range, 1, 2000) ELSE draw(range, 2, 2000) END)"
    order_rows = f"""
        SELECT range AS order_id, draw(range, 1, 2000) AS item, {time} AS order_time,
               'customer-' || (range % 10007) AS customer
        FROM range({rows})"""
    click_rows = f"""
        SELECT range AS click_id, {item} AS clicked_item,
               {time} + to_microseconds(draw(range, 5, 8000000)) AS click_time, 'page-' || (range % 101) AS page
        FROM range({rows})"""
    left = _item_orders(_cut(order_rows, "order_time", "order_id", "0"))
    right = _clicks(_cut(click_rows, "click_time", "click_id", "0"))
    if not has_key:
        # Far from the closing order, for no key tells the two apart.
        closing = f"SELECT -1::BIGINT AS click_id, -2::BIGINT AS clicked_item, {FAR} + INTERVAL 1 HOUR AS click_time"
        left = replace(left, key="")
        right = replace(right, key="", closing=f"{closing}, '' AS page")
    return Streams(
        name=f"history-{days}{'' if has_key else '-band'}",
        left=left,
        right=right,
        bound=(
            "click_time >= order_time AND click_time <= order_time + INTERVAL 5000 MILLISECONDS"
            if following
            else _within("click_time", "order_time", 5_000)
        ),
        delay_ms=DISORDER_MICROS // 1000,
    )


def loaded(
    load: int, batches: int, batch_rows: int, bound_ms: int, lag_rows: int, matching: int, payload: int = 0
) -> Streams:
    """Return two even streams whose first file loads the state, followed by many small ones.

    Args:
        load: rows of each stream in its first file.
        batches: how many small files follow.
        batch_rows: rows of each stream in a small file.
        bound_ms: how far apart the two times may be, either way, milliseconds.
        lag_rows: a delivery comes up to so many rows after its order.
        matching: so many deliveries in 100 have an order.
        payload: bytes of text that each row has besides, a multiple of 32.
    """
    total = load + batches * batch_rows
    text = f", array_to_string([md5(concat(all_rows.range, '-', each)) for each in range({payload // 32})], '')"
    wide, wide_too = (f"{text} AS {name}" if payload else "" for name in ("payload", "details"))
    order_rows = f"""
        SELECT range AS order_id, {_time("range")} AS order_time,
               'customer-' || (range % 10007) AS customer, (range * 7919) % 20000 AS cents{wide}
        FROM range({total}) AS all_rows"""
    delivery_rows = f"""
        SELECT range AS delivery_id,
               CASE WHEN draw(range, 1, 100) < {matching} AND draw(range, 2, {lag_rows}) <= range
                    THEN range - draw(range, 2, {lag_rows}) ELSE -10 - range END AS delivered_order_id,
               {_time("range")} AS delivery_time, 'courier-' || (range % 101) AS courier{wide_too}
        FROM range({total}) AS all_rows"""
    cut = f"(CASE WHEN place < {load} THEN 0 ELSE 1 + (place - {load}) // {batch_rows} END)"
    return Streams(
        name=f"loaded-{load}-{batches}{'-wide' if payload else ''}",
        left=_orders(_cut(order_rows, "order_time", "order_id", cut), payload > 0),
        right=_deliveries(_cut(delivery_rows, "delivery_time", "delivery_id", cut), payload > 0),
        bound=_within("delivery_time", "order_time", bound_ms),
        delay_ms=DISORDER_MICROS // 1000,
    )


def hot_key(load: int, clicks: int, batches: int) -> Streams:
    """Return streams of one single key, where a long watermark delay retains far more rows than are near in time.

    The first file has 100 orders for each second of the delay, every later one another second of them; the clicks of a
    file are anywhere within the delay before its end, each within a second of about 200 orders.

    Args:
        load: orders in the first file.
        clicks: how many, in all files together.
        batches: how many files.
    """
    delay = load // 100
    order_rows = f"""
        SELECT range AS order_id, 7::BIGINT AS item, {START} + to_microseconds(range * 10000) AS order_time,
               'customer-' || (range % 10007) AS customer, range AS place,
               CASE WHEN range < {load} THEN 0 ELSE (range - {load}) // 100 + 1 END AS batch
        FROM range({load + (batches - 1) * 100})"""
    batch = f"(range * {batches} // {clicks})"
    # Less than the delay before the end of the previous batch: no click is late, whatever precedes
    # it.
    before = f"(1000000 + draw(range, 1, {(delay - 2) * 1_000_000}))"
    click_rows = f"""
        SELECT range AS click_id, 7::BIGINT AS clicked_item,
               {START} + to_microseconds(({delay} + {batch}) * 1000000 - {before}) AS click_time,
               'page-' || (range % 101) AS page, range AS place, {batch} AS batch
        FROM range({clicks})"""
    return Streams(
        name=f"hot-{load}-{clicks}",
        left=_item_orders(order_rows),
        right=_clicks(click_rows),
        bound=_within("click_time", "order_time", 1_000),
        delay_ms=delay * 1000,
    )


def _time(number: str) -> str:
    return f"{START} + to_microseconds({number} * {MICROS_PER_ROW})"


def _within(time: str, other: str, bound_ms: int) -> str:
    interval = f"INTERVAL {bound_ms} MILLISECONDS"
    return f"{time} >= {other} - {interval} AND {time} <= {other} + {interval}"


def _cut(rows: str, time: str, row_id: str, batch: str) -> str:
    """Return the rows with their place in the order of arrival and the batch that follows from it."""
    arrival = f"{time} + to_microseconds(draw({row_id}, 3, {DISORDER_MICROS}))"
    placed = f"SELECT *, row_number() OVER (ORDER BY {arrival}, {row_id}) - 1 AS place FROM ({rows})"
    return f"SELECT *, {batch} AS batch FROM ({placed})"


def _orders(rows: str, payload: bool = False) -> Table:
    closing = f"SELECT -1::BIGINT AS order_id, {FAR} AS order_time, '' AS customer, 0::BIGINT AS cents"
    return Table("orders", "order_id", "order_id", "order_time", rows, closing + (", '' AS payload" if payload else ""))


def _deliveries(rows: str, payload: bool = False) -> Table:
    closing = (
        f"SELECT -1::BIGINT AS delivery_id, -2::BIGINT AS delivered_order_id, {FAR} AS delivery_time, '' AS courier"
        + (", '' AS details" if payload else "")
    )
    return Table("deliveries", "delivery_id", "delivered_order_id", "delivery_time", rows, closing)


def _item_order_rows(orders: int, items: int) -> str:
    return f"""
        SELECT range AS order_id, draw(range, 1, {items}) AS item, {_time("range")} AS order_time,
               'customer-' || (range % 10007) AS customer
        FROM range({orders})"""


def _item_orders(rows: str) -> Table:
    closing = f"SELECT -1::BIGINT AS order_id, -1::BIGINT AS item, {FAR} AS order_time, '' AS customer"
    return Table("orders", "order_id", "item", "order_time", rows, closing)


def _clicks(rows: str) -> Table:
    closing = f"SELECT -1::BIGINT AS click_id, -2::BIGINT AS clicked_item, {FAR} AS click_time, '' AS page"
    return Table("clicks", "click_id", "clicked_item", "click_time", rows, closing)


def generate(streams: Streams, work: Path) -> Path:
    """Write the files of both streams unless they exist, and return their folder."""
    folder = streams.folder(work)
    if folder.exists():
        return folder
    unfinished = folder.with_name(f"{folder.name}-unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    with _connect() as db:
        files = [_write(db, table, unfinished / table.name) for table in (streams.left, streams.right)]
    # Each batch reads a file of each stream: with fewer of one, the streams would end at
    # different batches.
    assert files[0] == files[1], f"{streams.name}: {files[0]} and {files[1]} files"
    unfinished.rename(folder)
    return folder


def _write(db: duckdb.DuckDBPyConnection, table: Table, folder: Path) -> int:
    folder.mkdir(parents=True)
    db.execute(f"CREATE OR REPLACE TEMP TABLE cut AS {table.rows}")
    batches = _numbers(db, "SELECT max(batch) + 1 FROM cut")[0]
    for batch in range(batches):
        rows = f"SELECT * EXCLUDE (batch, place) FROM cut WHERE batch = {batch} ORDER BY place"
        _copy(db, rows, folder, batch)
    _copy(db, table.closing, folder, batches)
    return batches


def _copy(db: duckdb.DuckDBPyConnection, rows: str, folder: Path, batch: int) -> None:
    file = folder / f"{batch:04}.parquet"
    db.execute(f"COPY ({rows}) TO '{file}' (FORMAT parquet)")
    os.utime(file, (FIRST_FILE_TIME + batch, FIRST_FILE_TIME + batch))


def expected_join(streams: Streams, how: JoinType, work: Path) -> list[int]:
    """Return how many rows DuckDB's batch join has, and how many of them with a right row."""
    kind = "LEFT JOIN" if how == "left_outer" else "JOIN"
    # The closing row of the left side stays in the state forever.
    left = f"(FROM '{{folder}}/{streams.left.name}/*.parquet' WHERE {streams.left.row_id} >= 0)"
    right = f"'{{folder}}/{streams.right.name}/*.parquet'"
    select = f"SELECT count(*), count({streams.right.row_id})"
    return _remembered(streams, work, how, f"{select} FROM {left} {kind} {right} ON {streams.condition}")


def expected_asof(streams: Streams, work: Path) -> list[int]:
    """Return how many rows DuckDB's as-of join has, left rows without a match included, and how many with one."""
    tables = (streams.left, streams.right)
    left, right = (f"(FROM '{{folder}}/{table.name}/*.parquet' WHERE {table.row_id} >= 0)" for table in tables)
    select = f"SELECT count(*), count({streams.right.row_id})"
    return _remembered(streams, work, "asof", f"{select} FROM {left} ASOF LEFT JOIN {right} ON {streams.condition}")


def expected_union(streams: Streams, work: Path) -> list[int]:
    """Return how many rows both streams have, closing rows included, and how many of them are right rows."""
    tables = (streams.left, streams.right)
    left, right = (f"(SELECT count(*) FROM '{{folder}}/{table.name}/*.parquet')" for table in tables)
    return _remembered(streams, work, "union", f"SELECT {left} + {right}, {right}")


def _remembered(streams: Streams, work: Path, name: str, query: str) -> list[int]:
    """Run a query over the streams' files once, and keep its result next to them."""
    folder = streams.folder(work)
    file = folder / f"expected-{name}.json"
    if not file.exists():
        with _connect() as db:
            file.write_text(json.dumps(_numbers(db, query.format(folder=folder))))
    numbers: list[int] = json.loads(file.read_text())
    return numbers


def _connect() -> duckdb.DuckDBPyConnection:
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    db.execute("CREATE MACRO draw(id, seed, below) AS (md5_number_lower(concat(id, '-', seed)) % below)::BIGINT")
    return db


def _numbers(db: duckdb.DuckDBPyConnection, query: str) -> list[int]:
    row: tuple[Any, ...] | None = db.execute(query).fetchone()
    assert row is not None
    return [int(number) for number in row]
