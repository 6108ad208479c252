"""The goals, and whether the runs have met them. A goal whose sides did not run is listed as not measured."""

import statistics
from collections.abc import Callable, Iterator
from typing import NamedTuple

from harness import figures
from harness.runs import Of, Runs, Value, spread, wall
from harness.scenario import LOOK_UPS, Scenario
from harness.scenarios import CATCH_UP_DAYS
from harness.sides import (
    BUDGETS,
    FLOOR_OUR_FILES,
    OURS,
    SPARK,
    SPARK_OUR_FILES,
    WITH_STATE,
)

# Fewer rounds are shown next to what was measured.
ENOUGH_ROUNDS = 3
NOT_MEASURED = "-"


class Goal(NamedTuple):
    """A line of the table of goals.

    Attributes:
        scenario: which scenario it is about.
        text: the goal.
        measured: the measured value.
        met: whether that is enough, None if it was not measured.
    """

    scenario: str
    text: str
    measured: str = NOT_MEASURED
    met: bool | None = None


def goals(runs: Runs, scenarios: dict[str, Scenario], listed: set[str]) -> list[Goal]:
    """Return the goals.

    Args:
        runs: what was measured.
        scenarios: all of them.
        listed: the names of those whose goals are returned.
    """
    found = (
        _steady(runs, scenarios),
        _small(runs, scenarios),
        _many_partitions(runs, scenarios),
        _columns(runs, scenarios),
        _rate(runs),
        _temporal(runs, scenarios),
        iter([look_ups(None)]),
        _w2(runs),
        _w2f(runs),
        _growth(runs),
        _order(runs, scenarios),
        _evict(runs, scenarios),
        _catch_up(runs),
        _beyond_budget(runs, scenarios),
        _memory(runs),
    )
    return [goal for each in found for goal in each if goal.scenario in listed]


def look_ups(speeds: list[float] | None) -> Goal:
    """Return the goal of a stream that looks up a table: rows a second, of each round."""
    text = "look-ups a second, 5 M rows, 1 % changed a minute: sj.table >= 1,000,000 (make bench-temporal)"
    if not speeds:
        return Goal(LOOK_UPS, text)
    enough = statistics.median(speeds) >= 1_000_000
    return Goal(LOOK_UPS, text, spread(speeds, ",.0f") + _rounds(len(speeds)), enough)


def _steady(runs: Runs, scenarios: dict[str, Scenario]) -> Iterator[Goal]:
    spark = SPARK_OUR_FILES[0]
    for short, words, spark_warm, floor in (
        ("w2-inner", "W2 inner", 10.0, 1.05),
        ("w2-left", "W2 left outer", 10.0, 1.05),
        ("w2f", "W2f", 10.0, 1.05),
        ("w3", "W3", 15.0, 1.15),
    ):
        name = f"steady-{short}"
        speed = figures.warm(scenarios[name])
        ours, theirs, shuffled = (Of(name, side, speed) for side in ("ours-default", spark, FLOOR_OUR_FILES))
        files = "equal files"
        text = f"{words}, warm, {files}: ours-default >= {spark_warm:g}x as fast as Spark's default store"
        yield _ratio(runs, text, ours, theirs, _at_least(spark_warm))
        yield _faster(runs, f"{words}, whole run, {files}: ", name, "ours-default", spark, 6.0)
        text = f"{words}, warm, {files}: ours-default <= {floor:g}x the floor's time"
        yield _ratio(runs, text, shuffled, ours, _at_most(floor))
    text = "W2f, whole run of 4 M orders: ours-default <= 11.2 s, which Flink took with heap state (another run)"
    yield _limit(runs, text, Of("steady-w2f", "ours-default"), 11.2, "s", 1)


def _small(runs: Runs, scenarios: dict[str, Scenario]) -> Iterator[Goal]:
    name = "small-batches"
    for words, statistic, limit in (("median", statistics.median, 60), ("99th percentile", figures.p99, 100)):
        batch = figures.measured(scenarios[name], ["triggerExecution"], statistic)
        text = f"small batches, {words}: ours-default <= {limit} ms"
        yield _limit(runs, text, Of(name, "ours-default", batch), limit, "ms", 0)
        best = _sparks_best(runs, name, batch, SPARK_OUR_FILES)
        for ours in OURS:
            text = f"small batches, {words}: {ours} below Spark's best, equal files"
            yield _compare(runs, text, Of(name, ours, batch), Of(name, best, batch), "ms")
    planning = figures.measured(scenarios[name], ["queryPlanning"], statistics.median)
    for ours in OURS:
        text = f"small batches, planning, median: {ours} <= 1.5x the floor, with the same files"
        yield _ratio(runs, text, Of(name, ours, planning), Of(name, FLOOR_OUR_FILES, planning), _at_most(1.5))


def _many_partitions(runs: Runs, scenarios: dict[str, Scenario]) -> Iterator[Goal]:
    name = "many-partitions"
    batch = figures.measured(scenarios[name], ["triggerExecution"], statistics.median)
    best = _sparks_best(runs, name, batch, SPARK_OUR_FILES)
    for ours in OURS:
        text = f"many partitions: {ours} <= 0.1x Spark's best, equal files"
        yield _ratio(runs, text, Of(name, ours, batch), Of(name, best, batch), _at_most(0.1))
        text = f"many partitions: {ours} <= 1.1x the floor, with the same files"
        yield _ratio(runs, text, Of(name, ours, batch), Of(name, FLOOR_OUR_FILES, batch), _at_most(1.1))


def _columns(runs: Runs, scenarios: dict[str, Scenario]) -> Iterator[Goal]:
    name = "columns-300"
    batch = figures.measured(scenarios[name], ["triggerExecution"], statistics.median)
    best = _sparks_best(runs, name, batch, SPARK_OUR_FILES)
    text = "300 string columns a side, all kept, a batch, equal files: ours-default >= 4x as fast as Spark's best"
    yield _ratio(runs, text, Of(name, best, batch), Of(name, "ours-default", batch), _at_least(4))
    name = "columns-1500"
    planning = figures.measured(scenarios[name], ["queryPlanning"], statistics.median)
    text = "1,500 string columns a side, planning a batch: ours-default <= 200 ms"
    yield _limit(runs, text, Of(name, "ours-default", planning), 200, "ms", 0)


def _rate(runs: Runs) -> Iterator[Goal]:
    best = runs.best("rate", SPARK_OUR_FILES, figures.highest_rate) or SPARK_OUR_FILES[0]
    text = "highest rate that batches of 1 s keep up with, equal files: ours-default >= 4x Spark's best"
    ours, spark = (Of("rate", side, figures.highest_rate) for side in ("ours-default", best))
    yield _ratio(runs, text, ours, spark, _at_least(4))


def _temporal(runs: Runs, scenarios: dict[str, Scenario]) -> Iterator[Goal]:
    best = _sparks_best(runs, "temporal", wall, WITH_STATE)
    for ours in OURS:
        yield _faster(runs, "temporal, the better hand-written one: ", "temporal", ours, best, 4.0, "it")
    speed = figures.warm(scenarios["temporal"])
    best = runs.best("temporal", WITH_STATE, speed) or best
    for ours in OURS:
        text = f"temporal, warm, the better hand-written one: {ours} >= 4x as fast as it"
        yield _ratio(runs, text, Of("temporal", ours, speed), Of("temporal", best, speed), _at_least(4))
    yield _times_floor(runs, "temporal: ", "temporal", 1.5)
    mine, floor = (Of("temporal", side, speed) for side in ("ours-default", FLOOR_OUR_FILES))
    yield _ratio(runs, "temporal, warm: ours-default <= 1.5x the floor's time", floor, mine, _at_most(1.5))


def _w2(runs: Runs) -> Iterator[Goal]:
    for name, words in (
        ("w2-inner-25", "W2 inner, 25 batches"),
        ("w2-left-25", "W2 left outer, 25 batches"),
        ("w2-inner-50", "W2 inner, 50 batches"),
        ("w2-left-50", "W2 left outer, 50 batches"),
    ):
        text = f"{words}: "
        yield _faster(runs, text, name, "ours-default", "spark-default", 4.0)
        yield _faster(runs, text, name, "ours-rocksdb", "spark-rocksdb", 5.0)
        yield _faster(runs, text, name, "ours-rocksdb", "spark-rocksdb-v4", 4.0)
        yield _times_floor(runs, text, name, 1.25)


def _w2f(runs: Runs) -> Iterator[Goal]:
    best = _sparks_best(runs, "w2f", wall)
    yield _faster(runs, "W2f: ", "w2f", "ours-default", best, 3.5, "Spark's best")
    yield _times_floor(runs, "W2f: ", "w2f", 1.5)


def _growth(runs: Runs) -> Iterator[Goal]:
    speeds = (("", figures.rows_per_second), (", the first two batches left out", figures.warm_rows_per_second))
    for side in OURS:
        for words, speed in speeds:
            few, many = (Of(f"growth-{size}", side, speed) for size in ("0.3", "5"))
            text = f"growth, {side}: rows/s at 5 M >= 0.9 of those at 0.3 M{words}"
            yield _ratio(runs, text, many, few, _at_least(0.9))


def _order(runs: Runs, scenarios: dict[str, Scenario]) -> Iterator[Goal]:
    sides = ("ours-default-ordered", "ours-default")
    for name in ("order-inner", "order-left"):
        text = f"{name}: in the order of rowtime <= 1.2x the join alone"
        ordered, plain = (Of(name, side) for side in sides)
        yield _ratio(runs, text, ordered, plain, _at_most(1.2))
        ordered, plain = (Of(name, side, figures.warm(scenarios[name])) for side in sides)
        yield _ratio(runs, f"{text}, warm", plain, ordered, _at_most(1.2))


def _evict(runs: Runs, scenarios: dict[str, Scenario]) -> Iterator[Goal]:
    for side in OURS:
        text = f"evict nothing, {side}: <= 10 ms a batch over all tasks"
        yield _limit(runs, text, Of("evict", side, figures.evict_ms(scenarios["evict"])), 10.0, "ms", 1)


def _catch_up(runs: Runs) -> Iterator[Goal]:
    for of in ("inner", "left", "band"):
        for days in CATCH_UP_DAYS[1:]:
            name = f"catch-up-{of}-{days}"
            yield _faster(runs, f"{name}: ", name, "ours-default", "spark-default", 2.0)
        for ours in OURS:
            for days in CATCH_UP_DAYS[:-1]:
                few, many = (
                    Of(f"catch-up-{of}-{each}", ours, figures.ms_per_row) for each in (days, CATCH_UP_DAYS[-1])
                )
                text = f"catch-up-{of}, {ours}: time of a row, {CATCH_UP_DAYS[-1]} days <= 1.3x that of {days}"
                yield _ratio(runs, text, many, few, _at_most(1.3))


def _beyond_budget(runs: Runs, scenarios: dict[str, Scenario]) -> Iterator[Goal]:
    for name, words in (("beyond-budget-0", "keys that are not there"), ("beyond-budget-100", "keys that are there")):
        batch = figures.measured(scenarios[name], ["triggerExecution"], statistics.median)
        beyond, within = (Of(name, side, batch) for side in reversed(BUDGETS))
        text = f"{name}: a batch of {words}, beyond the budget <= 2x that within it"
        yield _ratio(runs, text, beyond, within, _at_most(2))


def _memory(runs: Runs) -> Iterator[Goal]:
    for side in OURS:
        for what, metric in (("checkpoint", "segmentBytes"), ("index", "indexBytes")):
            of = Of("memory", side, figures.payload_ratio(metric))
            yield _limit(runs, f"{what}, {side}: bytes <= 1.4x the payload", of, 1.4, "x", 2)
    spark = Of("memory", "spark-default", figures.peak_heap)
    for side in OURS:
        ours = Of("memory", side, figures.peak_heap)
        yield _ratio(runs, f"peak heap: {side} <= half of spark-default", ours, spark, _at_most(0.5))
    for side in OURS:
        text = f"state four times the index budget, exact: {side} not slower than spark-rocksdb"
        yield _compare(runs, text, Of("budget", f"{side}-budget"), Of("budget", "spark-rocksdb"), "s")


def _sparks_best(runs: Runs, name: str, time: Value, sides: tuple[str, ...] = SPARK) -> str:
    """Return the side whose median time is the least; any if none ran, so that the goal is listed."""
    return runs.best(name, sides, lambda run: None if (found := time(run)) is None else -found) or sides[0]


def _at_least(factor: float) -> Callable[[float], bool]:
    return lambda ratio: ratio >= factor


def _at_most(factor: float) -> Callable[[float], bool]:
    return lambda ratio: ratio <= factor


def _faster(
    runs: Runs, text: str, scenario: str, ours: str, spark: str, factor: float, words: str | None = None
) -> Goal:
    """Return the goal that a side is so many times as fast as another."""
    text = f"{text}{ours} >= {factor:g}x as fast as {words or spark}"
    mine, limit = _median(runs, Of(scenario, ours)), runs.median(scenario, spark, wall)
    if mine and limit and not runs.finished(scenario, spark):
        # It was ended: how much longer it would have taken is unknown.
        return Goal(scenario, text, f"> {limit / mine:.2f}x", True if limit / mine >= factor else None)
    return _ratio(runs, text, Of(scenario, spark), Of(scenario, ours), _at_least(factor))


def _times_floor(runs: Runs, text: str, scenario: str, factor: float) -> Goal:
    text = f"{text}ours-default <= {factor:g}x the floor's time, with the same files"
    ours, floor = Of(scenario, "ours-default"), Of(scenario, FLOOR_OUR_FILES)
    return _ratio(runs, text, ours, floor, _at_most(factor))


def _ratio(runs: Runs, text: str, of: Of, base: Of, enough: Callable[[float], bool]) -> Goal:
    """Return a goal of the ratio of two values, which is computed within each round."""
    each = runs.ratios(of, base)
    if not each or not all(runs.finished(side.scenario, side.side) for side in (of, base)):
        return Goal(of.scenario, text)
    ratio = statistics.median(each)
    shown = f"{ratio:.2f}x"
    if len(each) > 1:
        shown += f" ({min(each):.2f} to {max(each):.2f})"
    return Goal(of.scenario, text, shown + _rounds(len(each)), enough(ratio))


def _compare(runs: Runs, text: str, ours: Of, spark: Of, unit: str) -> Goal:
    mine, theirs = _median(runs, ours), _median(runs, spark)
    if mine is None or theirs is None:
        return Goal(ours.scenario, text)
    values = [runs.values(*of) for of in (ours, spark)]
    shown = ", ".join(f"{spread(each, '.1f')} {unit}" for each in values)
    return Goal(ours.scenario, text, shown + _rounds(min(map(len, values))), mine < theirs)


def _limit(runs: Runs, text: str, of: Of, limit: float, unit: str, decimals: int) -> Goal:
    value = _median(runs, of)
    if value is None:
        return Goal(of.scenario, text)
    values = runs.values(*of)
    return Goal(of.scenario, text, f"{spread(values, f'.{decimals}f')} {unit}{_rounds(len(values))}", value <= limit)


def _rounds(number: int) -> str:
    """Return the number of rounds in words if they are too few."""
    return "" if number >= ENOUGH_ROUNDS else f", {number} round{'' if number == 1 else 's'} only"


def _median(runs: Runs, of: Of) -> float | None:
    """Return a value, or None if a run was ended at the time limit, because its time is unknown."""
    return runs.median(*of) if runs.of(of.scenario, of.side) and runs.finished(of.scenario, of.side) else None
