"""A few minutes at a fixed rate, with restarts: nothing grows, and every row is emitted once.

``make test-long`` runs it for five minutes, ``make soak`` for fifteen; ``make test`` leaves it out.
"""

import json
import os
import sys
from pathlib import Path

import pytest
from conftest import run

JOB = Path(__file__).with_name("jobs") / "soak_job.py"
SECONDS = int(os.environ.get("STREAMJOIN_SOAK_SECONDS", "0"))
# State that is never removed rises by three quarters of its mean in two minutes; a busy machine
# alone makes it rise by a fifth.
LIMIT = 0.4 if SECONDS < 600 else 0.2


@pytest.mark.skipif(SECONDS == 0, reason="runs in make soak and make test-long")
def test_soak(tmp_path: Path) -> None:
    restart = max(20, SECONDS // 20)
    command = [sys.executable, str(JOB), f"--seconds={SECONDS}", f"--restart={restart}", f"--work={tmp_path}"]
    printed = run(command, timeout=SECONDS + 600)
    figures = json.loads(printed.splitlines()[-1])
    print(json.dumps(figures))
    assert figures["same"] and figures["late"] == 0
    assert figures["restarts"] >= 3
    for name in ("heapMiB", "stateFiles", "openFiles", "indexKiB"):
        assert figures[name]["mean"] > 0
        assert figures[name]["rise"] < LIMIT, f"{name} grows: {figures[name]}"
