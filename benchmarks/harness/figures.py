"""The figures that the tables show and the goals are about, each a function of one run."""

import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

from harness.cpu import SPENT
from harness.runs import Run, Value, percentile
from harness.scenario import MILLION, Scenario, full_batches
from harness.sides import CORES
from harness.steady import GROUPS

MB = 1_000_000


class Figure(NamedTuple):
    """A line of a table.

    Attributes:
        name: what the reader sees.
        value: its value for a run, None if a side has none.
        decimals: how many to show.
    """

    name: str
    value: Value
    decimals: int = 1


def rows_per_second(run: Run) -> float | None:
    """Return the rows of both inputs over the seconds of the whole run."""
    rows = run.column("numInputRows")
    return sum(rows) / run.wall if rows else None


def _full_batches(run: Run) -> list[int]:
    return full_batches(run.column("numInputRows") or [])


def warm_rows_per_second(run: Run) -> float | None:
    """Return the rows over the time in full batches, without the first two, in which the JVM warms up."""
    return _speed(run, _full_batches(run)[2:])


def steady(scenario: Scenario, run: Run, name: str) -> list[float] | None:
    """Return a figure of each steady batch, None if this side has no such figure or lacks some of these batches.

    They are those after the process has warmed up, if the scenario does that.
    """
    if "warm" in run.record:
        warm: dict[str, list[float]] = run.record["warm"]["batches"]
        return warm.get(name)
    column = run.column(name)
    if column is None or (scenario.measured and scenario.measured[1] > len(column)):
        return None
    return [column[at] for at in scenario.steady(run.column("numInputRows") or [])]


def warm(scenario: Scenario) -> Value:
    """Return the rows over the time in the steady batches."""

    def value(run: Run) -> float | None:
        rows, times = (steady(scenario, run, name) for name in ("numInputRows", "triggerExecution"))
        return sum(rows) * 1000 / sum(times) if rows and times else None

    return value


def _speed(run: Run, batches: Sequence[int]) -> float | None:
    """Return the rows a second in some batches, by their positions."""
    rows, times = run.column("numInputRows") or [], run.column("triggerExecution") or []
    return sum(rows[at] for at in batches) * 1000 / sum(times[at] for at in batches) if batches else None


def batch_ms_at(part: int, parts: int) -> Value:
    """Return the median time of a full batch in one of several equal parts of the run, after the first batch."""

    def value(run: Run) -> float | None:
        times = run.column("triggerExecution") or []
        later = _full_batches(run)[1:]
        chosen = later[len(later) * part // parts : len(later) * (part + 1) // parts]
        return statistics.median(times[at] for at in chosen) if chosen else None

    return value


def first(run: Run, name: str) -> float | None:
    """Return a figure of the first batch."""
    column = run.column(name)
    return column[0] if column else None


def first_batch_ms(run: Run) -> float | None:
    """Return the time of the first batch."""
    return first(run, "triggerExecution")


def ms_per_row(run: Run) -> float | None:
    """Return the time of the first batch over its rows."""
    rows, time = first(run, "numInputRows"), first_batch_ms(run)
    return time / rows if rows and time is not None else None


def _row_us(run: Run) -> float | None:
    time = ms_per_row(run)
    return None if time is None else time * 1000


def measured(scenario: Scenario, names: list[str], take: Callable[[list[float]], float]) -> Value:
    """Return a statistic of the sum of some figures over the scenario's steady batches."""

    def value(run: Run) -> float | None:
        assert scenario.measured is not None, f"{scenario.name} has no steady state"
        each = [column for name in names if (column := steady(scenario, run, name)) is not None]
        return take([sum(values) for values in zip(*each, strict=True)]) if each and each[0] else None

    return value


def evict_ms(scenario: Scenario) -> Value:
    """Return the time that evicting takes in a steady batch, milliseconds over all tasks, on average."""
    ours = measured(scenario, ["evictTimeMs"], statistics.mean)
    spark = measured(scenario, ["allRemovalsTimeMs"], statistics.mean)
    return lambda run: found if (found := ours(run)) is not None else spark(run)


def largest_removal(name: str) -> Value:
    """Return a figure of the batch from which most rows left the state."""

    def value(run: Run) -> float | None:
        column, removed = run.column(name), run.column("numRowsRemoved")
        return None if column is None or removed is None else column[removed.index(max(removed))]

    return value


def payload_ratio(name: str) -> Value:
    """Return a number of bytes over those of the rows that are kept, where these are the most."""

    def value(run: Run) -> float | None:
        found, payload = run.at_peak(name), run.at_peak("payloadBytes")
        return found / payload if found is not None and payload else None

    return value


def peak_heap(run: Run) -> float | None:
    """Return the most bytes in use after a garbage collection, None if not measured."""
    heap: float | None = run.record.get("peakHeapBytes")
    return heap


def peak_heap_mb(run: Run) -> float | None:
    """Return the same in MB."""
    return _mb(peak_heap(run))


def cpu(spent: str) -> Value:
    """Return the CPU seconds that a million rows take of something."""

    def value(run: Run) -> float | None:
        measured = run.record.get("cpu")
        return measured["seconds"][spent] * MILLION / measured["rows"] if measured and measured["rows"] else None

    return value


def all_cpu(run: Run) -> float | None:
    """Return the CPU seconds that a million rows take in all."""
    each = [found for spent in SPENT if (found := cpu(spent)(run)) is not None]
    return sum(each) if each else None


def cores_busy(run: Run) -> float | None:
    """Return how many cores the process used on average while it was measured."""
    measured = run.record.get("cpu")
    return (
        sum(measured["seconds"].values()) / measured["batchSeconds"] if measured and measured["batchSeconds"] else None
    )


def highest_rate(run: Run) -> float | None:
    """Return the highest rate that a side kept up with, rows of both streams a second."""
    rate: float | None = run.record.get("rate")
    return rate


def at_highest_rate(name: str) -> Value:
    """Return a figure of the trial at the highest rate that a side kept up with."""

    def value(run: Run) -> float | None:
        trials = run.record.get("trials", [])
        return next((trial[name] for trial in trials if trial["rate"] == run.record["rate"]), None)

    return value


def load_ms_per_million(run: Run) -> float | None:
    """Return how long a new process takes to read a million rows of state, milliseconds over all tasks."""
    load, rows = run.column("loadTimeMs"), run.record.get("rowsBefore")
    return load[0] * 1_000_000 / rows if load and rows else None


TIMES = [
    Figure("in batches, s", lambda run: run.seconds("triggerExecution")),
    Figure("of it queryPlanning", lambda run: run.seconds("queryPlanning")),
    Figure("of it addBatch", lambda run: run.seconds("addBatch")),
    Figure("of it walCommit", lambda run: run.seconds("walCommit")),
    Figure("of it commitOffsets", lambda run: run.seconds("commitOffsets")),
    Figure("allUpdatesTimeMs, s over all tasks", lambda run: run.seconds("allUpdatesTimeMs")),
    Figure("allRemovalsTimeMs, s over all tasks", lambda run: run.seconds("allRemovalsTimeMs")),
    Figure("commitTimeMs, s over all tasks", lambda run: run.seconds("commitTimeMs")),
    Figure("loadTimeMs, s over all tasks", lambda run: run.seconds("loadTimeMs")),
    Figure("leftTimeMs, s over all tasks", lambda run: run.seconds("leftTimeMs")),
    Figure("rightTimeMs, s over all tasks", lambda run: run.seconds("rightTimeMs")),
    Figure("evictTimeMs, s over all tasks", lambda run: run.seconds("evictTimeMs")),
    Figure("batches", lambda run: len(times) if (times := run.column("triggerExecution")) else None, 0),
]
STATE = [
    Figure("most rows in state", lambda run: run.most("numRowsTotal"), 0),
    Figure("state's files at the end", lambda run: run.record.get("stateFiles"), 0),
    Figure("state's files at the end, MB", lambda run: _mb(run.record.get("stateFilesBytes"))),
]
MEMORY = [
    Figure("peak heap after a collection, MB", peak_heap_mb, 0),
    Figure("rows kept, MB (payload)", lambda run: _mb(run.at_peak("payloadBytes"))),
    Figure("index, MB", lambda run: _mb(run.at_peak("indexBytes"))),
    Figure("index / payload", payload_ratio("indexBytes"), 2),
    Figure("segments in the store, MB", lambda run: _mb(run.at_peak("segmentBytes"))),
    Figure("segments / payload", payload_ratio("segmentBytes"), 2),
    Figure("segments", lambda run: run.at_peak("segments"), 0),
    Figure("stateMemory (memoryUsedBytes), most, MB", lambda run: _mb(run.most("memoryUsedBytes"))),
]
BUDGET = [
    Figure("indexMemory for each task, MB", lambda run: _mb(run.record.get("budgetBytes"))),
    Figure("index, most, MB over all tasks", lambda run: _mb(run.most("indexBytes"))),
    Figure("segments", lambda run: run.most("segments"), 0),
    Figure("segmentsOnDisk", lambda run: run.most("segmentsOnDisk"), 0),
]
REBUILD = [
    Figure("rows in state at the stop", lambda run: run.record.get("rowsBefore"), 0),
    Figure("loadTimeMs of the first batch, over all tasks", lambda run: first(run, "loadTimeMs"), 0),
    Figure("loadTimeMs for a million rows", load_ms_per_million, 0),
    Figure("first batch of the new process, ms", first_batch_ms, 0),
    Figure("batches after it, median ms", batch_ms_at(0, 1), 0),
]
GROWTH = [
    Figure("rows per second", rows_per_second, 0),
    Figure("rows per second, without the first two batches", warm_rows_per_second, 0),
    Figure("first batch, ms", first_batch_ms, 0),
    *(Figure(f"batches after it, quarter {part + 1}, median ms", batch_ms_at(part, 4), 0) for part in range(4)),
]


def _mb(size: float | None) -> float | None:
    return None if size is None else size / MB


CPU = [
    *(Figure(f"CPU s a million rows: {spent}", cpu(spent), 3) for spent in SPENT),
    Figure("CPU s a million rows, in all", all_cpu, 3),
    Figure("cores in use", cores_busy, 2),
    Figure("samples of stacks", lambda run: run.record["cpu"]["samples"] if run.record.get("cpu") else None, 0),
]
RATE = [
    Figure("highest rate, rows a second", highest_rate, 0),
    Figure("a batch at it, median ms", at_highest_rate("medianMs"), 0),
    Figure("rows in state at it", at_highest_rate("stateRows"), 0),
]
SMALL = ("small-batches", "many-partitions", "beyond-budget", "columns")


def extra(scenario: Scenario) -> list[Figure]:
    """Return the figures that a scenario is about, in addition to those that all have."""
    if scenario.name == "evict":
        return [
            Figure("evicting nothing, ms a batch over all tasks", evict_ms(scenario)),
            Figure("rows evicted meanwhile", measured(scenario, ["numRowsRemoved"], sum), 0),
            Figure("such a batch, median ms", measured(scenario, ["triggerExecution"], statistics.median), 0),
            Figure("the batch that evicts all, ms", largest_removal("triggerExecution"), 0),
            Figure("of it removals, ms over all tasks", largest_removal("allRemovalsTimeMs"), 0),
            Figure("rows evicted in it", largest_removal("numRowsRemoved"), 0),
        ]
    if scenario.group == "catch-up":
        return [Figure("the batch, ms", first_batch_ms, 0), Figure("of it a row, µs", _row_us, 2)]
    by_group = {"growth": GROWTH, "memory": MEMORY, "budget": BUDGET, "rebuild": REBUILD, "rate": RATE}
    by_group |= {"steady-heap": MEMORY, "steady-cpu": CPU}
    if scenario.group in by_group:
        return by_group[scenario.group]
    speeds = [
        Figure("rows per second, whole run (cold)", rows_per_second, 0),
        Figure("rows per second, warm", warm(scenario), 0),
    ]
    if scenario.group in GROUPS:
        return [*speeds, *_steady(scenario)]
    return _batches(scenario) if scenario.group in SMALL else speeds


def _steady(scenario: Scenario) -> list[Figure]:
    """Return the figures of the batches of a long run."""
    speed = warm(scenario)

    def per_core(run: Run) -> float | None:
        found = speed(run)
        return None if found is None else found / CORES

    times = ["triggerExecution"]
    return [
        Figure("rows per second and core, warm", per_core, 0),
        Figure("a warm batch, median ms", measured(scenario, times, statistics.median), 0),
        Figure("a warm batch, 99th percentile, ms", measured(scenario, times, p99), 0),
        Figure("rows in state, warm, median", measured(scenario, ["numRowsTotal"], statistics.median), 0),
    ]


def _batches(scenario: Scenario) -> list[Figure]:
    """Return the times of the steady batches, and their parts."""
    median = statistics.median
    return [
        Figure("a batch, median ms", measured(scenario, ["triggerExecution"], median), 0),
        Figure("a batch, 99th percentile, ms", measured(scenario, ["triggerExecution"], p99), 0),
        Figure("of it planning, median ms", measured(scenario, ["queryPlanning"], median), 0),
        Figure("of it commit, median ms", measured(scenario, ["walCommit", "commitOffsets"], median), 0),
        Figure("of it tasks (addBatch), median ms", measured(scenario, ["addBatch"], median), 0),
        Figure("of it latestOffset, median ms", measured(scenario, ["latestOffset"], median), 0),
    ]


def p99(values: list[float]) -> float:
    """Return the 99th percentile."""
    return percentile(values, 0.99)
