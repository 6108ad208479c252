"""What was measured: one record per run, kept as a line of JSON as soon as the run has ended."""

import json
import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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

    def measured(self, name: str, batches: tuple[int, int]) -> list[float] | None:
        """Return a figure of the batches from one position to before another."""
        column = self.column(name)
        return None if column is None else column[batches[0] : batches[1]]

    def at_peak(self, name: str) -> float | None:
        """Return a figure of the batch after which the state had the most rows."""
        column, rows = self.column(name), self.column("numRowsTotal")
        return None if column is None or rows is None else column[rows.index(max(rows))]


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

    def median(self, scenario: str, side: str, value: Value) -> float | None:
        """Return the median over the rounds, None if there is nothing to take it of."""
        values = [found for run in self.of(scenario, side) if (found := value(run)) is not None]
        return statistics.median(values) if values else None

    def least(self, scenario: str, side: str, value: Value) -> float | None:
        """Return the minimum over the rounds, None if there is nothing to take it of."""
        return min((found for run in self.of(scenario, side) if (found := value(run)) is not None), default=None)


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


def wall(run: Run) -> float:
    """Return the seconds of a run: the value that sides are compared by."""
    return run.wall


def percentile(values: list[float], share: float) -> float:
    """Return the smallest value that at least a share of all values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
