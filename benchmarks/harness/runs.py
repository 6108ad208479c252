"""What was measured: one record per run, kept as a line of JSON as soon as the run has ended."""

import json
import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from harness.machine import SAME

Record = dict[str, Any]
Value = Callable[["Run"], float | None]


@dataclass(frozen=True)
class Run:
    """One run of one side."""

    record: Record

    @property
    def scenario(self) -> str:
        """The scenario's name."""
        return str(self.record["scenario"])

    @property
    def side(self) -> str:
        """The side's name."""
        return str(self.record["side"])

    @property
    def round(self) -> int:
        """Which round, from 1."""
        return int(self.record["round"])

    @property
    def wall(self) -> float:
        """Seconds from the query's start to its end; a lower bound if it was ended before."""
        return float(self.record["wall"])

    @property
    def finished(self) -> bool:
        """Whether it finished within the time limit; if not, its record has no figures."""
        return not self.record.get("unfinished", False)

    def column(self, name: str) -> list[float] | None:
        """Return a figure of each batch, None if this side has no such figure."""
        batches: dict[str, list[float]] = self.record["batches"]
        return batches.get(name)

    def seconds(self, name: str) -> float | None:
        """Return the sum of a time over all batches, seconds."""
        column = self.column(name)
        return None if column is None else sum(column) / 1000

    def most(self, name: str) -> float | None:
        """Return the highest value that a figure has after any batch."""
        column = self.column(name)
        return None if column is None else max(column)

    def at_peak(self, name: str) -> float | None:
        """Return a figure of the batch after which the state had the most rows."""
        column, rows = self.column(name), self.column("numRowsTotal")
        return None if column is None or rows is None else column[rows.index(max(rows))]


def wall(run: Run) -> float:
    """Return the seconds of a run: the value that sides are compared by."""
    return run.wall


class Of(NamedTuple):
    """A value of a side."""

    scenario: str
    side: str
    value: Value = wall


class Runs:
    """All runs of a comparison, by scenario and side."""

    def __init__(self, records: Iterable[Record]):
        self._runs: dict[tuple[str, str], list[Run]] = {}
        for record in records:
            self.add(Run(record))

    def add(self, run: Run) -> None:
        """Add a run."""
        self._runs.setdefault((run.scenario, run.side), []).append(run)

    def all(self) -> list[Run]:
        """Return every run."""
        return [run for runs in self._runs.values() for run in runs]

    def of(self, scenario: str, side: str) -> list[Run]:
        """Return the runs of a side, none if it has not run."""
        return self._runs.get((scenario, side), [])

    def finished(self, scenario: str, side: str) -> bool:
        """Tell whether a side finished all of its runs."""
        return all(run.finished for run in self.of(scenario, side))

    def has(self, scenario: str) -> bool:
        """Tell whether any side of a scenario has run."""
        return any(name == scenario for name, _ in self._runs)

    def values(self, scenario: str, side: str, value: Value) -> list[float]:
        """Return a value of each round that has it."""
        return [found for run in self.of(scenario, side) if (found := value(run)) is not None]

    def median(self, scenario: str, side: str, value: Value) -> float | None:
        """Return the median over the rounds, None if there is nothing to take it of."""
        values = self.values(scenario, side, value)
        return statistics.median(values) if values else None

    def best(self, scenario: str, sides: Iterable[str], speed: Value) -> str | None:
        """Return the side with the highest median of a value, None if none has one."""
        found = {side: median for side in sides if (median := self.median(scenario, side, speed)) is not None}
        return max(found, key=lambda side: found[side]) if found else None

    def ratios(self, of: Of, base: Of) -> list[float]:
        """Return one value over another, for each round that has both: within a round, both had the same machine."""
        found, bases = self._by_round(of), self._by_round(base)
        return [found[number] / bases[number] for number in found if bases.get(number)]

    def _by_round(self, of: Of) -> dict[int, float]:
        runs = self.of(of.scenario, of.side)
        return {run.round: value for run in runs if run.finished and (value := of.value(run)) is not None}


def read(file: Path) -> list[Record]:
    """Return the records of a file, none if there is no such file."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def write(file: Path, records: Iterable[Record]) -> None:
    """Replace the records of a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(record) + "\n" for record in records))


def append(file: Path, record: Record) -> None:
    """Add a record to a file."""
    with file.open("a") as lines:
        lines.write(json.dumps(record) + "\n")


def one_run(records: list[Record]) -> list[Record]:
    """Return the records that may be in a table together: of each scenario, those of its last command.

    Sides of another day, kernel or jar would compare machines, not joins.
    """
    last = {record["scenario"]: origin(record) for record in records}
    return [record for record in records if origin(record) == last[record["scenario"]]]


def origin(record: Record) -> tuple[str | None, ...]:
    """Return the command that a record comes from, the machine and the jar."""
    return (record.get("run"), *(record["environment"].get(name) for name in SAME))


def emitted(record: Record) -> list[int]:
    """Return the number of rows that a run emitted and, if it observed them, of those with a row of the last stream."""
    return record["counts"] if "counts" in record else [record["rowsOut"]]


def spread(values: list[float], form: str) -> str:
    """Return the median and, if values differ as shown, the least and the most."""
    median, least, most = (format(take(values), form) for take in (statistics.median, min, max))
    return median if least == most else f"{median} ({least} to {most})"


def percentile(values: list[float], share: float) -> float:
    """Return the smallest value that at least a share of all values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
