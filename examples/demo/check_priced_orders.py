"""The answer of the temporal joins' demo, checked: DuckDB's as-of joins of the same files."""

from pathlib import Path

import duckdb
from check_orders import Check, compared

COLUMNS = "order_id, order_time, item, currency, quantity, price_time, cents, rate_time, rate"
TOTALS = {
    "rows": "count(*)",
    "with a price": "count(cents)",
    "with a rate": "count(rate)",
    "with both": "count(cents + rate)",
    "worth (dollars)": "coalesce(sum(quantity * cents * rate), 0) // 100000000",
}


def check(work: Path, result: str, tolerance: str, late: int) -> Check:
    """Compare the rows of both joins with DuckDB's answer.

    Args:
        work: Where ``priced_orders`` wrote a folder for each stream.
        result: A DuckDB relation with the rows of the joins, such as ``read_parquet([...])``.
        tolerance: How old a rate may be, such as ``"1 hour"``.
        late: How many rows the joins dropped as late; none is.
    """
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    db.execute(f"CREATE TABLE actual AS SELECT {COLUMNS} FROM {result}")
    # A price that is a deletion says that there is none; a rate that is too old is none.
    db.execute(f"""
        CREATE TABLE expected AS
        SELECT o.*, CASE WHEN op <> 'delete' THEN price_time END AS price_time, cents,
          CASE WHEN rate_time >= order_time - INTERVAL '{tolerance}' THEN rate_time END AS rate_time,
          CASE WHEN rate_time >= order_time - INTERVAL '{tolerance}' THEN rate END AS rate
        FROM (FROM '{work}/orders/*.parquet' WHERE order_id >= 0) o
        ASOF LEFT JOIN '{work}/prices/*.parquet' p ON item = priced_item AND order_time >= price_time
        ASOF LEFT JOIN '{work}/rates/*.parquet' r ON currency = code AND order_time >= rate_time""")
    found = compared(db, TOTALS)
    found.totals.append(("rows dropped as late", late, 0))
    return found
