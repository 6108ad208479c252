"""The demo's answer, checked: DuckDB joins the same input files, without the late rows, in one go."""

import json
from dataclasses import dataclass
from pathlib import Path

import duckdb

# Spark brings times with a zone or without one, Kafka brings text: here they are all UTC without a
# zone.
COLUMNS = """
    order_id, order_time::TIMESTAMP AS order_time, customer, cents,
    delivery_id, delivery_time::TIMESTAMP AS delivery_time, courier"""

TOTALS = {
    "rows": "count(*)",
    "with a delivery": "count(delivery_id)",
    "without (padded)": "count(*) - count(delivery_id)",
    "sum of cents": "coalesce(sum(cents), 0)",
    "sum of ms to deliver": "coalesce(sum(epoch_ms(delivery_time) - epoch_ms(order_time)), 0)",
}


@dataclass
class Check:
    """Totals of both answers, and how many rows only one of them has."""

    totals: list[tuple[str, int, int]]
    only_spark: int
    only_duckdb: int

    @property
    def same(self) -> bool:
        """Tell whether both answers are the same rows, each as often."""
        return self.only_spark == self.only_duckdb == 0 and all(a == b for _, a, b in self.totals)

    def show(self) -> None:
        """Print the totals side by side."""
        print(f"\n{'':<28}{'Spark':>16}{'DuckDB':>16}")
        for name, spark, expected in self.totals:
            print(f"{name:<28}{spark:>16,}{expected:>16,}{'' if spark == expected else '   DIFFERENT'}")
        print(f"{'rows that the other has not':<28}{self.only_spark:>16,}{self.only_duckdb:>16,}")


RETURN_COLUMNS = f"""{COLUMNS},
    return_id, return_time::TIMESTAMP AS return_time, reason"""

RETURN_TOTALS = TOTALS | {
    "with a return": "count(return_id)",
    "sum of ms to return": "coalesce(sum(epoch_ms(return_time) - epoch_ms(delivery_time)), 0)",
}

# The streams without their late rows, and without the rows that close them.
JOINED = """
    (SELECT o.*, d.* EXCLUDE (order_id)
     FROM (FROM read_parquet('{work}/orders/*.parquet')
           WHERE order_id >= 0 AND NOT list_contains($late_orders, order_id)) o
     LEFT JOIN (FROM read_parquet('{work}/deliveries/*.parquet')
           WHERE order_id >= 0 AND NOT list_contains($late_deliveries, delivery_id)) d
     ON o.order_id = d.order_id
        AND d.delivery_time BETWEEN o.order_time AND o.order_time + INTERVAL 1 HOUR)"""
RETURNED = f"""
    (SELECT j.*, r.* EXCLUDE (delivery_id)
     FROM {JOINED} j
     LEFT JOIN (FROM read_parquet('{{work}}/returns/*.parquet') WHERE delivery_id >= 0) r
     ON j.delivery_id = r.delivery_id
        AND r.return_time BETWEEN j.delivery_time AND j.delivery_time + INTERVAL 30 MINUTES)"""


def check(work: Path, result: str, dropped: int | None = None, distinct: bool = False) -> Check:
    """Compare the rows of a join with DuckDB's answer over ``work/orders`` and ``work/deliveries``.

    Args:
        work: Where ``generate_orders`` wrote both streams and ``late.json``.
        result: A DuckDB relation with the rows of the join, such as ``read_parquet([...])``.
        dropped: How many rows the join dropped as late, to be compared with the rows that are.
        distinct: Compare the rows without their number. A row of the demo is unique, so that nothing is hidden
            but what a sink wrote twice.
    """
    return _compare(work, result, JOINED, COLUMNS, TOTALS, dropped, distinct)


def check_returns(work: Path, result: str, dropped: int) -> Check:
    """Compare the rows of the join of three streams with DuckDB's answer.

    Args:
        work: Where ``generate_orders --returns`` wrote the streams and ``late.json``.
        result: A DuckDB relation with the rows of the join.
        dropped: How many rows the joins dropped as late.
    """
    return _compare(work, result, RETURNED, RETURN_COLUMNS, RETURN_TOTALS, dropped, distinct=False)


def _compare(
    work: Path,
    result: str,
    answer: str,
    columns: str,
    sums: dict[str, str],
    dropped: int | None,
    distinct: bool,
) -> Check:
    late = json.loads((work / "late.json").read_text())
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    kept = "DISTINCT" if distinct else ""
    db.execute(f"CREATE TABLE actual AS SELECT {kept} {columns} FROM {result}")
    db.execute(
        f"CREATE TABLE expected AS SELECT {columns} FROM {answer.format(work=work)}",
        {"late_orders": late["orders"], "late_deliveries": late["deliveries"]},
    )
    found = compared(db, sums)
    if dropped is not None:
        found.totals.append(("rows dropped as late", dropped, len(late["orders"]) + len(late["deliveries"])))
    return found


def compared(db: duckdb.DuckDBPyConnection, sums: dict[str, str]) -> Check:
    """Compare the tables ``actual`` and ``expected``: their totals, and their rows."""
    return Check(
        [(name, _one(db, sql, "actual"), _one(db, sql, "expected")) for name, sql in sums.items()],
        _one(db, "count(*)", "(FROM actual EXCEPT ALL FROM expected)"),
        _one(db, "count(*)", "(FROM expected EXCEPT ALL FROM actual)"),
    )


def _one(db: duckdb.DuckDBPyConnection, expression: str, relation: str) -> int:
    row = db.execute(f"SELECT {expression} FROM {relation}").fetchone()
    assert row is not None
    return int(row[0])
