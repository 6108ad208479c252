"""A scenario: on which streams, with which join, by which sides, and what its runs measure."""

import math
from dataclasses import dataclass
from typing import Literal

from harness.inputs import JoinType, Streams
from harness.runs import Record
from harness.sides import BY_NAME, EVERY, PARTITIONS

# What a run is for: times; the heap after collections; CPU time; times with a limited index, or of
# a continued query; the highest rate that batches keep up with.
Kind = Literal["time", "memory", "cpu", "budget", "rebuild", "rate"]

# What temporal.py measures without a scenario.
LOOK_UPS = "look-ups"

# The share of the batches that is not measured, because the state grows; a scenario may have
# another one.
LEFT_OUT = 0.3
HOUR_MS = 3_600_000
MILLION = 1_000_000


@dataclass(frozen=True)
class Scenario:
    """One comparison.

    Attributes:
        name: as on the command line and in the tables.
        group: several scenarios that are selected and shown together.
        title: one line for the reader.
        streams: the input.
        how: the join's type.
        sides: the names of the sides that it has.
        kind: what a run does.
        rounds: the maximum number of rounds.
        measured: the batches, by position, that represent the steady state, if not all of them do.
        warms_up: whether the process runs the query again and again, and only later batches count as warm.
        window_ms: the bound of the join as a window over the right stream, for sides that put their output in order.
        temporal: whether the right stream has the versions of a table, and a left row matches the one of its time.
        partitions: the number of tasks and of state stores.
    """

    name: str
    group: str
    title: str
    streams: Streams
    how: JoinType
    sides: tuple[str, ...] = EVERY
    kind: Kind = "time"
    rounds: int | None = None
    measured: tuple[int, int] | None = None
    window_ms: int | None = None
    temporal: bool = False
    partitions: int = PARTITIONS
    warms_up: bool = False

    @property
    def is_timed(self) -> bool:
        """Whether the time of a whole run is compared."""
        return self.kind in ("time", "budget", "rebuild")

    def steady(self, rows: list[float]) -> list[int]:
        """Return the positions of a run's steady batches: those ``measured``, or full ones but the first 30 %.

        Args:
            rows: of each batch.
        """
        if self.measured:
            first, end = self.measured
            return list(range(first, min(end, len(rows))))
        full = full_batches(rows)
        return full[math.ceil(len(full) * LEFT_OUT) :]


def full_batches(rows: list[float]) -> list[int]:
    """Return the positions of the batches before the end of the input, by the rows of each batch."""
    return [at for at, number in enumerate(rows) if number > max(rows) / 2]


def current(records: list[Record], known: dict[str, Scenario]) -> list[Record]:
    """Return the records of these scenarios, without runs on streams or sides that they no longer have."""
    return [
        record
        for record in records
        if record["scenario"] in known
        and record["inputs"] == known[record["scenario"]].streams.full_name
        and record.get("sideVersion", 1) == BY_NAME[record["side"]].version
    ]


def rows(number: float, scale: float) -> int:
    """Return a number of rows at a scale."""
    return round(number * scale)
