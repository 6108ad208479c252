"""The demo jobs, started as by a user, on few rows: each compares its own result with DuckDB's."""

import sys
from pathlib import Path

import check_priced_orders
import priced_orders
import pytest
from check_tpch import check
from conftest import LONG, ROOT, run, together
from spark_submit import environment, spark_submit
from tpch_changes import rounds

DEMO = ROOT / "examples" / "demo"


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return what each demo prints."""
    two, three = "orders_deliveries", "orders_deliveries_returns"
    small = {
        "sql": (two, "--orders=3000", "--source=sql"),
        "delta_join": ("delta_join", "--scale=0.0005", "--rounds=3", "--seconds=0.5"),
        "temporal_join": ("temporal_join", "--orders=2000", "--rounds=4", "--seconds=0"),
    }
    if LONG:
        small |= {"files": (two, "--orders=3000", "--source=files"), "three": (three, "--orders=2000")}
    programs = [
        [str(DEMO / f"{script}.py"), *more, f"--work={tmp_path_factory.mktemp(name)}"]
        for name, (script, *more) in small.items()
    ]
    return dict(zip(small, together(programs, spark_submit, environment=environment()), strict=True))


@pytest.mark.skipif(not LONG, reason="a part of make test-long; the demo of two streams has the same parts")
def test_orders_deliveries_returns(printed: dict[str, str]) -> None:
    out = printed["three"]
    assert "The same rows, joined by streamIntervalJoin" in out
    assert "returns until" in out, "no batch was shown"
    assert "o.order_time is held back with d.delivery_time" in out


# The demo of three streams reads files in the same way.
@pytest.mark.parametrize("source", ["files", "sql"] if LONG else ["sql"])
def test_orders_deliveries(printed: dict[str, str], source: str) -> None:
    out = printed[source]
    assert "The same rows, joined by streamIntervalJoin" in out
    assert "orders until" in out, "no batch was shown"
    assert "What bounds the state" in out


@pytest.mark.skipif(not LONG, reason="a part of make test-long; TakeOverSuite has take-overs in one process")
def test_take_over(tmp_path: Path) -> None:
    out = run(
        [sys.executable, str(DEMO / "run_take_over_demo.py"), "--orders=3000", f"--work={tmp_path}"], environment()
    )
    first, second = out.split("Second half")
    assert "symmetricHashJoin" in first
    assert "streamIntervalJoin" not in first
    assert "streamIntervalJoin" in second
    assert "symmetricHashJoin" not in second
    assert "The same rows" in second


def test_delta_join(printed: dict[str, str]) -> None:
    out = printed["delta_join"]
    assert "The same rows in query 3; rows that the query keeps: 0" in out
    assert "The same rows in furniture; rows that the query keeps: 0" in out
    assert "A second join has started. Indexes:" in out
    assert "rows of lineitem (version)" in out, "no batch was shown"
    assert "LookUp o by (o_custkey)" in out


def test_the_demo_of_delta_joins_notices_a_wrong_row(tmp_path: Path) -> None:
    for number, each in enumerate(rounds(0.0005, 3)):
        each.write(tmp_path, number)
    columns = ["o_orderkey", "l_linenumber", "l_extendedprice", "l_discount"]
    wrong = "(SELECT 1 AS o_orderkey, 1 AS l_linenumber, 1 AS l_extendedprice, 0 AS l_discount, 1 AS _diff)"
    checked = check(tmp_path, wrong, columns, "c_custkey = o_custkey AND l_orderkey = o_orderkey")
    assert not checked.same
    assert checked.only_spark == 1
    assert checked.only_duckdb > 100


def test_temporal_join(printed: dict[str, str]) -> None:
    out = printed["temporal_join"]
    assert "The same rows, joined by streamTemporalJoin" in out
    assert "rates until" in out, "no batch was shown"


def test_the_demo_of_temporal_joins_notices_wrong_rows(tmp_path: Path) -> None:
    for number, rows in enumerate(priced_orders.rounds(500, 3)):
        priced_orders.write(tmp_path, number, rows)
    folder = tmp_path / "orders"
    none = "NULL::TIMESTAMPTZ AS price_time, NULL::BIGINT AS cents, NULL::TIMESTAMPTZ AS rate_time, NULL AS rate"
    unpriced = f"(SELECT *, {none} FROM '{folder}/*.parquet' WHERE order_id >= 0)"
    checked = check_priced_orders.check(tmp_path, unpriced, "1 hour", late=0)
    assert not checked.same
    assert checked.only_spark == checked.only_duckdb > 400
    totals = {name: expected for name, _, expected in checked.totals}
    assert 0 < totals["with both"] < min(totals["with a price"], totals["with a rate"]), "a case does not occur"
    assert max(totals["with a price"], totals["with a rate"]) < totals["rows"] == 500
