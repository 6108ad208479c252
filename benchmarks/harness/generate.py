"""The streams of the benchmarks, as SQL of DuckDB: what they have in common is in ``inputs.py``.

Event times have 200 rows a second where nothing else is said.
"""

from dataclasses import replace

from harness.inputs import DISORDER_MICROS, FAR, MICROS_PER_ROW, START, Streams, Table


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
        left=order_table(_cut(order_rows, "order_time", "order_id", cut), payload),
        right=delivery_table(_cut(delivery_rows, "delivery_time", "delivery_id", cut)),
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
        left=item_order_table(_cut(order_rows, "order_time", "order_id", f"(place // {batch_rows})")),
        right=click_table(_cut(click_rows, "click_time", "click_id", f"(place // {batch_rows})")),
        bound=within("click_time", "order_time", 5_000),
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
        left=item_order_table(_cut(order_rows, "order_time", "order_id", cut)),
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


def band(orders: int, batch_rows: int, seconds: float = 0.05, bound_ms: int = 1_000) -> Streams:
    """Return orders and as many clicks that are joined by nothing but their times.

    Args:
        orders: how many, and how many clicks.
        batch_rows: orders in a file, and clicks in one.
        seconds: from one order to the next, and from one click to the next.
        bound_ms: how far apart the two times may be, either way, milliseconds.
    """
    time = f"{START} + to_microseconds(range * {round(seconds * 1_000_000)})"
    order_rows = f"SELECT range AS order_id, {time} AS order_time FROM range({orders})"
    click_rows = f"SELECT range AS click_id, {time} AS click_time FROM range({orders})"
    cut = f"(place // {batch_rows})"
    left = _cut(order_rows, "order_time", "order_id", cut)
    right = _cut(click_rows, "click_time", "click_id", cut)
    closing = f"SELECT -1::BIGINT AS order_id, {FAR} AS order_time"
    # Far from the closing order too, for no key tells the two apart.
    closing_click = f"SELECT -1::BIGINT AS click_id, {FAR} + INTERVAL {bound_ms // 3_600_000 + 1} HOUR AS click_time"
    return Streams(
        name=f"band-{orders}-{batch_rows}",
        left=Table("orders", "order_id", "", "order_time", left, closing),
        right=Table("clicks", "click_id", "", "click_time", right, closing_click),
        bound=within("click_time", "order_time", bound_ms),
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
    left = item_order_table(_cut(order_rows, "order_time", "order_id", "0"))
    right = click_table(_cut(click_rows, "click_time", "click_id", "0"))
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
            else within("click_time", "order_time", 5_000)
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
        left=order_table(_cut(order_rows, "order_time", "order_id", cut), payload > 0),
        right=delivery_table(_cut(delivery_rows, "delivery_time", "delivery_id", cut), payload > 0),
        bound=within("delivery_time", "order_time", bound_ms),
        delay_ms=DISORDER_MICROS // 1000,
    )


def many_columns(columns: int, batches: int, batch_rows: int) -> Streams:
    """Return orders and deliveries with so many columns of text each; nine of ten deliveries have an order.

    Args:
        columns: of text that each row has, in addition to its number, its key and its time.
        batches: how many files.
        batch_rows: rows of each stream in a file.
    """
    total = batches * batch_rows

    def texts(name: str, value: str) -> str:
        return ", ".join(f"{value.format(number)} AS {name}_{number}" for number in range(columns))

    value = "'value-' || ((range * 31 + {}) % 997)"
    lag = f"draw(range, 2, {2 * batch_rows})"
    order_rows = f"""
        SELECT range AS order_id, {_time("range")} AS order_time, {texts("order_text", value)} FROM range({total})"""
    delivery_rows = f"""
        SELECT range AS delivery_id,
               CASE WHEN draw(range, 1, 10) < 9 AND {lag} <= range THEN range - {lag} ELSE -10 - range END
               AS delivered_order_id,
               {_time("range")} AS delivery_time, {texts("delivery_text", value)} FROM range({total})"""
    cut = f"(place // {batch_rows})"
    order, delivery = (
        order_table(_cut(order_rows, "order_time", "order_id", cut)),
        delivery_table(_cut(delivery_rows, "delivery_time", "delivery_id", cut)),
    )
    closing = f"SELECT -1::BIGINT AS order_id, {FAR} AS order_time, {texts('order_text', chr(39) * 2)}"
    closing_delivery = (
        f"SELECT -1::BIGINT AS delivery_id, -2::BIGINT AS delivered_order_id, {FAR} AS delivery_time, "
        f"{texts('delivery_text', chr(39) * 2)}"
    )
    return Streams(
        name=f"columns-{columns}-{total}",
        left=replace(order, closing=closing),
        right=replace(delivery, closing=closing_delivery),
        bound=within("delivery_time", "order_time", 3 * batch_rows * MICROS_PER_ROW // 1000),
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
        left=item_order_table(order_rows),
        right=click_table(click_rows),
        bound=within("click_time", "order_time", 1_000),
        delay_ms=delay * 1000,
    )


def _time(number: str) -> str:
    return f"{START} + to_microseconds({number} * {MICROS_PER_ROW})"


def within(time: str, other: str, bound_ms: int) -> str:
    """Return the condition that two times are so near to each other, in SQL for both Spark and DuckDB."""
    interval = f"INTERVAL {bound_ms} MILLISECONDS"
    return f"{time} >= {other} - {interval} AND {time} <= {other} + {interval}"


def _cut(rows: str, time: str, row_id: str, batch: str) -> str:
    """Return the rows with their place in the order of arrival and the batch that follows from it."""
    arrival = f"{time} + to_microseconds(draw({row_id}, 3, {DISORDER_MICROS}))"
    placed = f"SELECT *, row_number() OVER (ORDER BY {arrival}, {row_id}) - 1 AS place FROM ({rows})"
    return f"SELECT *, {batch} AS batch FROM ({placed})"


def order_table(rows: str, payload: bool = False) -> Table:
    """Return the table of orders, whose key is their number."""
    closing = f"SELECT -1::BIGINT AS order_id, {FAR} AS order_time, '' AS customer, 0::BIGINT AS cents"
    return Table("orders", "order_id", "order_id", "order_time", rows, closing + (", '' AS payload" if payload else ""))


def delivery_table(rows: str, payload: bool = False) -> Table:
    """Return the table of deliveries of orders."""
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


def item_order_table(rows: str) -> Table:
    """Return the table of orders of an item."""
    closing = f"SELECT -1::BIGINT AS order_id, -1::BIGINT AS item, {FAR} AS order_time, '' AS customer"
    return Table("orders", "order_id", "item", "order_time", rows, closing)


def click_table(rows: str) -> Table:
    """Return the table of clicks on an item."""
    closing = f"SELECT -1::BIGINT AS click_id, -2::BIGINT AS clicked_item, {FAR} AS click_time, '' AS page"
    return Table("clicks", "click_id", "clicked_item", "click_time", rows, closing)
