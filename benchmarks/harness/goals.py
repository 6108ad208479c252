"""The goals, and whether the runs have met them."""

import statistics
from collections.abc import Callable, Iterator
from typing import NamedTuple

from harness import figures
from harness.runs import Runs, Value, wall
from harness.scenarios import CATCH_UP_DAYS, Scenario
from harness.sides import BUDGETS, FLOOR_OUR_FILES, OURS, SPARK


class Goal(NamedTuple):
    """A line of the table of goals.

    Attributes:
        text: the goal.
        measured: the measured value.
        met: whether that is enough, None if it could not be measured.
    """

    text: str
    measured: str
    met: bool | None


class Of(NamedTuple):
    """A value of a side, as the median over its rounds."""

    scenario: str
    side: str
    value: Value = wall


def goals(runs: Runs, scenarios: dict[str, Scenario]) -> list[Goal]:
    """Return the goals of those scenarios and sides that ran."""
    found = (
        _w2(runs),
        _w2f(runs),
        _growth(runs),
        _order(runs),
        _evict(runs, scenarios),
        _small(runs, scenarios),
        _many_partitions(runs, scenarios),
        _catch_up(runs),
        _beyond_budget(runs, scenarios),
        _memory(runs),
        _temporal(runs),
    )
    return [goal for each in found for goal in each]


def _w2(runs: Runs) -> Iterator[Goal]:
    for name, words in (
        ("w2-inner-25", "W2 inner, 25 batches"),
        ("w2-left-25", "W2 left outer, 25 batches"),
        ("w2-inner-50", "W2 inner, 50 batches"),
        ("w2-left-50", "W2 left outer, 50 batches"),
    ):
        text = f"{words}: "
        yield from _faster(runs, text, name, "ours-default", "spark-default", 4.0)
        yield from _faster(runs, text, name, "ours-rocksdb", "spark-rocksdb", 5.0)
        yield from _faster(runs, text, name, "ours-rocksdb", "spark-rocksdb-v4", 4.0)
        yield from _times_floor(runs, text, name, 1.25)


def _sparks_best(runs: Runs, name: str, value: Value) -> str | None:
    """Return the side of Spark's own whose median is the least, if one ran."""
    medians = {side: median for side in SPARK if (median := runs.median(name, side, value)) is not None}
    return min(medians, key=lambda side: medians[side]) if medians else None


def _w2f(runs: Runs) -> Iterator[Goal]:
    if best := _sparks_best(runs, "w2f", wall):
        yield from _faster(runs, "W2f, Spark's best: ", "w2f", "ours-default", best, 3.5)
    yield from _times_floor(runs, "W2f: ", "w2f", 1.5)


def _growth(runs: Runs) -> Iterator[Goal]:
    speeds = (("", figures.rows_per_second), (", the first two batches left out", figures.warm_rows_per_second))
    for side in OURS:
        for words, speed in speeds:
            few, many = (Of(f"growth-{size}", side, speed) for size in ("0.3", "5"))
            text = f"growth, {side}: rows/s at 5 M >= 0.9 of those at 0.3 M{words}"
            yield from _ratio(runs, text, many, few, lambda ratio: ratio >= 0.9)


def _order(runs: Runs) -> Iterator[Goal]:
    for name in ("order-inner", "order-left"):
        ordered, plain = Of(name, "ours-default-ordered"), Of(name, "ours-default")
        text = f"{name}: in the order of rowtime <= 1.2x the interval join"
        yield from _ratio(runs, text, ordered, plain, lambda ratio: ratio <= 1.2)


def _evict(runs: Runs, scenarios: dict[str, Scenario]) -> Iterator[Goal]:
    for side in OURS:
        if runs.of("evict", side):
            rows = runs.median("evict", side, lambda run: run.most("numRowsTotal"))
            text = f"evict nothing, {side}, of {rows or 0:,.0f} rows in state: <= 10 ms a batch over all tasks"
            yield from _limit(runs, text, Of("evict", side, figures.evict_ms(scenarios["evict"])), 10.0, "ms", 1)


def _small(runs: Runs, scenarios: dict[str, Scenario]) -> Iterator[Goal]:
    name = "small-batches"
    if not runs.has(name):
        return
    for ours, spark in (("ours-default", "spark-default"), ("ours-rocksdb", "spark-rocksdb")):
        for words, statistic in (("median", statistics.median), ("99th percentile", figures.p99)):
            batch = figures.measured(scenarios[name], ["triggerExecution"], statistic)
            text = f"small batches, {words}: {ours} below {spark}"
            yield from _compare(runs, text, Of(name, ours, batch), Of(name, spark, batch), "ms")
    planning = figures.measured(scenarios[name], ["queryPlanning"], statistics.median)
    for ours in OURS:
        text = f"small batches, planning, median: {ours} <= 1.5x the floor, with the same files"
        floor = Of(name, FLOOR_OUR_FILES, planning)
        yield from _ratio(runs, text, Of(name, ours, planning), floor, lambda ratio: ratio <= 1.5)


def _many_partitions(runs: Runs, scenarios: dict[str, Scenario]) -> Iterator[Goal]:
    name = "many-partitions"
    if not runs.has(name):
        return
    batch = figures.measured(scenarios[name], ["triggerExecution"], statistics.median)
    if best := _sparks_best(runs, name, batch):
        for ours in OURS:
            text = f"many partitions: {ours} <= 0.1x Spark's best, {best}"
            yield from _ratio(runs, text, Of(name, ours, batch), Of(name, best, batch), lambda ratio: ratio <= 0.1)
    for ours in OURS:
        text = f"many partitions: {ours} <= 1.2x the floor, with the same files"
        yield from _ratio(
            runs, text, Of(name, ours, batch), Of(name, FLOOR_OUR_FILES, batch), lambda ratio: ratio <= 1.2
        )


def _catch_up(runs: Runs) -> Iterator[Goal]:
    for of in ("inner", "left", "band"):
        for days in CATCH_UP_DAYS[1:]:
            name = f"catch-up-{of}-{days}"
            yield from _faster(runs, f"{name}: ", name, "ours-default", "spark-default", 2.0)
        for ours in OURS:
            for days in CATCH_UP_DAYS[:-1]:
                few, many = (
                    Of(f"catch-up-{of}-{each}", ours, figures.ms_per_row) for each in (days, CATCH_UP_DAYS[-1])
                )
                text = f"catch-up-{of}, {ours}: time of a row, {CATCH_UP_DAYS[-1]} days <= 1.3x that of {days}"
                yield from _ratio(runs, text, many, few, lambda ratio: ratio <= 1.3)


def _beyond_budget(runs: Runs, scenarios: dict[str, Scenario]) -> Iterator[Goal]:
    for name, words in (("beyond-budget-0", "keys that are not there"), ("beyond-budget-100", "keys that are there")):
        if runs.has(name):
            batch = figures.measured(scenarios[name], ["triggerExecution"], statistics.median)
            beyond, within = (Of(name, side, batch) for side in reversed(BUDGETS))
            text = f"{name}: a batch of {words}, beyond the budget <= 2x that within it"
            yield from _ratio(runs, text, beyond, within, lambda ratio: ratio <= 2)


def _memory(runs: Runs) -> Iterator[Goal]:
    for side in OURS:
        for what, metric in (("checkpoint", "segmentBytes"), ("index", "indexBytes")):
            of = Of("memory", side, figures.payload_ratio(metric))
            yield from _limit(runs, f"{what}, {side}: bytes <= 1.4x the payload", of, 1.4, "x", 2)
    spark = Of("memory", "spark-default", figures.peak_heap)
    for side in OURS:
        ours = Of("memory", side, figures.peak_heap)
        yield from _ratio(runs, f"peak heap: {side} <= half of spark-default", ours, spark, lambda ratio: ratio <= 0.5)
    for side in OURS:
        text = f"state four times the index budget, exact: {side} not slower than spark-rocksdb"
        yield from _compare(runs, text, Of("budget", f"{side}-budget"), Of("budget", "spark-rocksdb"), "s")


def _temporal(runs: Runs) -> Iterator[Goal]:
    yield from _faster(runs, "temporal: ", "temporal", "ours-rocksdb", "with-state", 10.0)
    yield from _times_floor(runs, "temporal: ", "temporal", 1.5)


def _faster(runs: Runs, text: str, scenario: str, ours: str, spark: str, factor: float) -> Iterator[Goal]:
    """Return the goal that a side is so many times as fast as another."""
    text = f"{text}{ours} >= {factor:g}x as fast as {spark}"
    mine, limit = _median(runs, Of(scenario, ours)), runs.median(scenario, spark, wall)
    if mine and limit and not runs.finished(scenario, spark):
        # It was ended: how much longer it would have taken is unknown.
        return iter([Goal(text, f"> {limit / mine:.2f}x", True if limit / mine >= factor else None)])
    return _ratio(runs, text, Of(scenario, spark), Of(scenario, ours), lambda ratio: ratio >= factor)


def _times_floor(runs: Runs, text: str, scenario: str, factor: float) -> Iterator[Goal]:
    text = f"{text}ours-default <= {factor:g}x the floor's time, with the same files"
    ours, floor = Of(scenario, "ours-default"), Of(scenario, FLOOR_OUR_FILES)
    return _ratio(runs, text, ours, floor, lambda ratio: ratio <= factor)


def _ratio(runs: Runs, text: str, of: Of, base: Of, enough: Callable[[float], bool]) -> Iterator[Goal]:
    if not _ran(runs, of, base):
        return
    value, whole = _median(runs, of), _median(runs, base)
    if value is None or not whole:
        yield Goal(text, "-", None)
    else:
        yield Goal(text, f"{value / whole:.2f}x", enough(value / whole))


def _compare(runs: Runs, text: str, ours: Of, spark: Of, unit: str) -> Iterator[Goal]:
    if not _ran(runs, ours, spark):
        return
    mine, theirs = _median(runs, ours), _median(runs, spark)
    if mine is None or theirs is None:
        yield Goal(text, "-", None)
    else:
        yield Goal(text, f"{mine:.1f} {unit}, {theirs:.1f} {unit}", mine < theirs)


def _limit(runs: Runs, text: str, of: Of, limit: float, unit: str, decimals: int) -> Iterator[Goal]:
    if not _ran(runs, of):
        return
    value = _median(runs, of)
    yield Goal(text, "-", None) if value is None else Goal(text, f"{value:.{decimals}f} {unit}", value <= limit)


def _median(runs: Runs, of: Of) -> float | None:
    """Return a value, or None if a run was ended at the time limit, because its time is unknown."""
    return runs.median(*of) if runs.finished(of.scenario, of.side) else None


def _ran(runs: Runs, *needed: Of) -> bool:
    return all(runs.of(of.scenario, of.side) for of in needed)
