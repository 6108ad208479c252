"""The demo job, as a user starts it, on few rows: it compares its own result with DuckDB's."""

import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parent.parent / "examples" / "demo"
sys.path.insert(0, str(DEMO))

from spark_submit import environment, spark_submit  # noqa: E402


def test_orders_deliveries_returns(tmp_path: Path) -> None:
    command = spark_submit(DEMO / "orders_deliveries_returns.py", "--orders=2000", f"--work={tmp_path}")
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The same rows, joined by streamIntervalJoin" in done.stdout
    assert "returns until" in done.stdout, "no batch was shown"
    assert "o.order_time is held back with d.delivery_time" in done.stdout


@pytest.mark.parametrize("source", ["files", "sql"])
def test_orders_deliveries(tmp_path: Path, source: str) -> None:
    command = spark_submit(DEMO / "orders_deliveries.py", "--orders=3000", f"--work={tmp_path}", f"--source={source}")
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The same rows, joined by streamIntervalJoin" in done.stdout
    assert "orders until" in done.stdout, "no batch was shown"
    assert "What bounds the state" in done.stdout
