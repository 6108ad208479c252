"""Records of benchmark runs, as a run leaves them."""

from typing import Any

from harness.runs import Record
from harness.scenarios import scenarios
from harness.sides import BY_NAME

SMALL = scenarios(0.001)
ALL = scenarios(1)


def record(scenario: str, side: str, number: int, **more: Any) -> Record:
    """Return the record of a run: 80 batches of 100 rows, each in 50 ms."""
    environment = {"date": "2026-11-28 10:00 UTC", "command": "run", "CPU": "c", "memory": "m", "OS": "o"}
    return {
        "run": "first",
        "scenario": scenario,
        "inputs": SMALL[scenario].streams.full_name,
        "side": side,
        "sideVersion": BY_NAME[side].version,
        "round": number,
        "wall": 2.0,
        "counts": [10, 5],
        "hash": 1,
        "operator": "join",
        "inputRows": 8000,
        "batches": {"numInputRows": [100.0] * 80, "triggerExecution": [50.0] * 80, "numRowsTotal": [7.0] * 80},
        "environment": environment | {"streamjoin": "jar"},
    } | more


def faster(scenario: str, side: str, factor: float, rounds: int = 3, **more: Any) -> list[Record]:
    """Return the records of a side that is so many times as fast as ``record``, a little more in each round."""
    found = []
    for number in range(1, rounds + 1):
        of_round = factor * (1 + number / 100)
        batches = {"numInputRows": [100.0] * 80, "triggerExecution": [50 / of_round] * 80}
        found.append(record(scenario, side, number, wall=2 / of_round, batches=batches, **more))
    return found
