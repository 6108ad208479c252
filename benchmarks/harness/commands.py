"""What a command keeps of the records of earlier ones: a table has runs of one command only."""

from datetime import UTC, datetime

from harness.machine import require_same
from harness.runs import Record, origin


def new_command(records: list[Record], chosen: set[str]) -> tuple[str, list[Record]]:
    """Return a name for this command, and the records without those of the chosen scenarios."""
    return datetime.now(UTC).isoformat(timespec="seconds"), [r for r in records if r["scenario"] not in chosen]


def continued_command(records: list[Record], chosen: set[str]) -> tuple[str, list[Record]]:
    """Return the name of the last command, and the records without what earlier ones have of the chosen scenarios.

    It ends the benchmark if the last command was on another machine, kernel or jar.
    """
    if not records:
        return new_command(records, chosen)
    last = records[-1]
    require_same(last["environment"])
    kept = [record for record in records if record["scenario"] not in chosen or origin(record) == origin(last)]
    return last.get("run", ""), kept
