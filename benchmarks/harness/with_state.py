"""The temporal join that a PySpark user writes without streamjoin: a processor for ``transformWithStateInPandas``.

Both streams become one, grouped by key. An order waits in the state until the watermark has passed its time, and is
then joined with the newest earlier price. There are two processors: ``ByKey``, the documented way, has a state for each
key; ``ByBucket`` has one for thousands of keys together, as a data frame in a binary value, which is faster, but which
nothing else can read.
"""

import sys
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

BUCKETS = 8
ORDER = "micros BIGINT, id BIGINT, text STRING"
PRICE = "micros BIGINT, id BIGINT, cents BIGINT, text STRING"
RESULT = (
    "order_id BIGINT, item BIGINT, order_micros BIGINT, customer STRING, "
    "price_id BIGINT, since_micros BIGINT, cents BIGINT, supplier STRING"
)
COLUMNS = [column.split(" ")[0] for column in RESULT.split(", ")]


def with_state(orders: DataFrame, prices: DataFrame, buckets: bool) -> DataFrame:
    """Return orders, each with the price of its item at its time, or with nulls.

    Args:
        orders: a stream of order_id, item, order_time with a watermark, and customer.
        prices: a stream of price_id, priced_item, since with a watermark, cents and supplier.
        buckets: whether many keys share a state.
    """
    # Python's workers cannot import this module, so its classes are sent to them.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    both = orders.select(*shape("order_time", "item", "order_id", "customer"), F.lit(0).cast("long").alias("cents"))
    both = both.unionByName(prices.select(*shape("since", "priced_item", "price_id", "supplier"), "cents"))
    if buckets:
        groups = both.withColumn("bucket", F.pmod(F.hash("item"), F.lit(BUCKETS))).groupBy("bucket")
        found = groups.transformWithStateInPandas(ByBucket(), RESULT, "append", "EventTime")
    else:
        found = both.groupBy("item").transformWithStateInPandas(ByKey(), RESULT, "append", "EventTime")
    return found.select(
        "order_id",
        "item",
        F.timestamp_micros("order_micros").alias("order_time"),
        "customer",
        "price_id",
        F.when(F.col("price_id").isNotNull(), F.col("item")).alias("priced_item"),
        F.timestamp_micros("since_micros").alias("since"),
        "cents",
        "supplier",
    )


def shape(time: str, item: str, number: str, text: str) -> list[Any]:
    """Return the columns that orders and prices have in common, none of them ever null."""
    return [
        F.col(item).alias("item"),
        F.col(time).alias("time"),
        F.unix_micros(time).alias("micros"),
        F.lit(time == "since").alias("is_price"),
        F.col(number).alias("id"),
        F.col(text).alias("text"),
    ]


class ByKey(StatefulProcessor):
    """Keeps the orders of one item until their time, and finds their prices."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state of the items."""
        self.handle = handle
        self.waiting = handle.getListState("waiting", ORDER)
        self.prices = handle.getListState("prices", PRICE)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Any]:
        """Keep the rows, and ask to be called when the watermark has passed the last order."""
        orders, prices = [], []
        for frame in rows:
            columns = (frame[name].tolist() for name in ("is_price", "micros", "id", "cents", "text"))
            for is_price, micros, number, cents, text in zip(*columns, strict=True):
                if is_price:
                    prices.append((micros, number, cents, text))
                else:
                    orders.append((micros, number, text))
        if prices:
            self.prices.appendList(prices)
        if orders:
            self.waiting.appendList(orders)
            self.handle.registerTimer(up(max(orders)[0]))
        return iter(())

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Any]:
        """Return the orders that the watermark has passed, and forget the prices that no other can find."""
        watermark = timerValues.getCurrentWatermarkInMs() * 1000
        waiting = list(self.waiting.get())
        due = [order for order in waiting if order[0] <= watermark]
        if not due:
            return
        prices = sorted(self.prices.get())
        times = [price[0] for price in prices]
        result = []
        for micros, number, customer in due:
            at = bisect_right(times, micros) - 1
            since, price_id, cents, supplier = prices[at] if at >= 0 else (None, None, None, None)
            result.append((number, key[0], micros, customer, price_id, since, cents, supplier))
        later = [order for order in waiting if order[0] > watermark]
        self.waiting.put(later) if later else self.waiting.clear()
        newest = bisect_right(times, watermark) - 1
        if newest > 0:
            self.prices.put(prices[newest:])
        yield pd.DataFrame(result, columns=COLUMNS, dtype=object)


class ByBucket(StatefulProcessor):
    """Keeps the orders of thousands of items as data frames, and finds their prices."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state of the buckets."""
        self.handle = handle
        self.waiting = handle.getValueState("waiting", "frame BINARY")
        self.prices = handle.getValueState("prices", "frame BINARY")

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Any]:
        """Return the orders that the watermark has passed."""
        new = pd.concat(list(rows))[["item", "micros", "is_price", "id", "cents", "text"]]
        is_price = new.pop("is_price").to_numpy()
        orders = new[~is_price]
        if len(orders):
            self.handle.registerTimer(up(int(orders["micros"].max())))
        yield from self.join([orders], [new[is_price]], timerValues)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Any]:
        """Return the orders that the watermark has passed, if there is no new row."""
        yield from self.join([], [], timerValues)

    def join(self, orders: list[Any], prices: list[Any], values: TimerValues) -> Iterator[Any]:
        """Take new rows, return the orders that are due, and forget the prices that no other can find."""
        watermark = values.getCurrentWatermarkInMs() * 1000
        waiting = pd.concat([*frames(self.waiting), *orders], ignore_index=True)
        passed = waiting["micros"] <= watermark
        if not orders and not passed.any():
            return
        known = pd.concat([*frames(self.prices), *prices], ignore_index=True).sort_values("micros")
        self.waiting.update((packed(waiting[~passed]),))
        past = known["micros"] <= watermark
        self.prices.update((packed(pd.concat([known[past].drop_duplicates("item", keep="last"), known[~past]])),))
        if passed.any():
            due = waiting[passed].sort_values("micros").drop(columns="cents")
            right = known.rename(columns={"id": "price_id", "micros": "since_micros", "text": "supplier"})
            found = pd.merge_asof(due, right, by="item", left_on="micros", right_on="since_micros")
            found = found.rename(columns={"id": "order_id", "micros": "order_micros", "text": "customer"})
            optional = dict.fromkeys(["price_id", "since_micros", "cents"], "Int64")
            yield found[COLUMNS].astype(optional)


def up(micros: int) -> int:
    """Return the first millisecond that is not before a time."""
    return -(-micros // 1000)


def packed(frame: Any) -> bytes:
    """Return a data frame as bytes."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def frames(state: Any) -> list[Any]:
    """Return the data frame of a state, none if there is none yet."""
    value = state.get()
    return [] if value is None else [pa.ipc.open_stream(value[0]).read_pandas()]
