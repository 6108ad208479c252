"""The answer of the delta join's demo, checked: DuckDB joins the tables as the same files of changes leave them."""

from collections.abc import Sequence
from pathlib import Path

import duckdb
from check_orders import Check, compared
from tpch_changes import KEYS, SCHEMAS


def check(work: Path, changes: str, columns: Sequence[str], condition: str) -> Check:
    """Compare what the changes of a join add up to with DuckDB's join of the three tables.

    Args:
        work: Where ``tpch_changes`` wrote a folder for each table.
        changes: A DuckDB relation with the columns of the join and ``_diff``, such as ``read_parquet([...])``.
        columns: Those of the join.
        condition: Of the join, with the tables as ``c``, ``o`` and ``l``.
    """
    names = ", ".join(columns)
    db = duckdb.connect()
    for table, schema in SCHEMAS.items():
        key = ", ".join(KEYS[table])
        # The newest change of a key counts; a file is a round.
        db.execute(f"""
            CREATE TABLE {table} AS SELECT {", ".join(schema.names)} FROM (
              FROM read_parquet('{work}/{table}/*.parquet', filename = true)
              QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY filename DESC) = 1)
            WHERE op <> 'delete'""")
    db.execute(f"""
        CREATE TABLE expected AS SELECT {names}, 1 AS copies
        FROM customer c, orders o, lineitem l WHERE {condition}""")
    db.execute(f"""
        CREATE TABLE actual AS SELECT {names}, sum(_diff)::INTEGER AS copies
        FROM {changes} GROUP BY ALL HAVING copies <> 0""")
    totals = {
        "rows": "coalesce(sum(copies), 0)",
        "orders": "count(DISTINCT o_orderkey)",
        "revenue (cents)": "coalesce(sum(l_extendedprice * (100 - l_discount) * copies), 0) // 100",
    }
    return compared(db, totals)
