"""The runs: on which streams, with which join, by which sides."""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from harness.generate import band, history, hot_key, loaded, many_columns, priced, w2, w2f
from harness.inputs import JoinType, Streams
from harness.rates import rates
from harness.scenario import HOUR_MS, LOOK_UPS, MILLION, Scenario, rows
from harness.sides import BUDGETS, COMPARED, EQUAL_FILES, FLOORS, OURS, SPARK, TEMPORAL, WITH_FILES
from harness.steady import steady


class Selection(NamedTuple):
    """What a command runs if it names no scenarios.

    Attributes:
        scale: of the scenarios.
        rounds: how often a side runs.
        names: of the scenarios, none for all.
    """

    scale: float
    rounds: int
    names: tuple[str, ...]


SELECTIONS = {
    "headline": Selection(1, 3, ("steady-w2-left", "steady-heap-w2-left")),
    "small": Selection(0.3, 1, ("w2-inner-25", "w2-left-25", "w2f", "small-batches", "evict", "band", "order-inner")),
    "full": Selection(1, 3, ()),
}

# Which page has the goals of a scenario that another command than the full one usually measures.
ELSEWHERE = {
    **dict.fromkeys(SELECTIONS["headline"].names, "headline.md"),
    "temporal": "temporal.md",
    LOOK_UPS: "look-ups.md",
}


def listed(name: str, ran: Iterable[str]) -> set[str]:
    """Return the scenarios whose goals a report lists, measured or not: those of its selection, and those that ran."""
    selection = SELECTIONS.get(name)
    if selection is None:
        return set(ran)
    return {*(selection.names or (*scenarios(selection.scale), LOOK_UPS)), *ran}


def scenarios(scale: float) -> dict[str, Scenario]:
    """Return a dict of all scenarios, in the order in which they run.

    Args:
        scale: multiplies the numbers of rows, and with them the time bounds, so that the state is the same share of
            the input. Small files that follow a loaded state stay as small, and of small batches there are 60 or more.
    """
    million = rows(MILLION, scale)
    found = [
        *steady(scale),
        rates(scale),
        *_w2_scenarios(million),
        Scenario(
            "w2f",
            "w2f",
            "W2f: orders and as many clicks on 2,000 items, ±5 s, inner",
            w2f(million, million // 25, items=2000),
            "inner",
            sides=WITH_FILES,
        ),
        *(
            Scenario(
                f"order-{short}",
                "order",
                f"Rowtime order: W2, {words}, 25 batches, as a window join and as an interval join",
                _w2(million, batches=25),
                how,
                sides=("ours-default", "ours-default-ordered"),
                window_ms=million * HOUR_MS // MILLION,
                warms_up=True,
            )
            for short, words, how in _W2_TYPES
        ),
        *(_growth(size, scale) for size in (0.3, 1, 3, 5)),
        Scenario(
            "evict",
            "evict",
            "Evict nothing: 20 batches of 100 rows over a loaded state that stays; then all leaves at once; inner",
            loaded(million // 2, batches=20, batch_rows=50, bound_ms=2 * HOUR_MS, lag_rows=million // 10, matching=1),
            "inner",
            measured=(1, 21),
        ),
        _small_batches(scale),
        _many_partitions(scale),
        Scenario(
            "wide",
            "wide",
            "Wide rows: W2 whose orders carry 1 KiB each, left outer, 25 batches",
            _w2(rows(100_000, scale), batches=25, payload=True),
            "left_outer",
        ),
        Scenario(
            "hot-key",
            "hot-key",
            "Hot key: one key; a long watermark delay retains 100 rows for each of its seconds; ±1 s, inner",
            hot_key(rows(100_000, scale), rows(5_000, scale), batches=20),
            "inner",
        ),
        Scenario(
            "band",
            "band",
            "Band: orders and clicks within ±1 s of each other, no equality (Spark: a constant key), inner",
            band(rows(100_000, scale), rows(5_000, scale)),
            "inner",
        ),
        Scenario(
            "band-hour",
            "band",
            "Band: an order and a click a second, half an hour of each other or less, no equality (Spark: a constant "
            "key), inner",
            band(rows(6_000, scale), rows(300, scale), seconds=1, bound_ms=rows(HOUR_MS // 2, scale)),
            "inner",
        ),
        *(_many_columns(columns, scale) for columns in (300, 1500)),
        *(
            _catch_up(days, short, words, how, has_key)
            for short, words, how, has_key in _CATCH_UP_TYPES
            for days in CATCH_UP_DAYS
        ),
        *(
            Scenario(
                f"catch-up-order-{days}",
                "catch-up",
                f"Catch up: a history of {days} days in one batch, a click up to 5 s after its order, left outer, as a "
                "window join and as an interval join",
                history(days, has_key=True, following=True),
                "left_outer",
                sides=("ours-default", "ours-default-ordered"),
                window_ms=5_000,
            )
            for days in CATCH_UP_DAYS
        ),
        *(_beyond_budget(matching, scale) for matching in (0, 100)),
        *_memory_scenarios(_w2(million, batches=25)),
        Scenario(
            "temporal",
            "temporal",
            "Temporal join: orders, each with the price that its item had at its time; ten prices an item, left outer, "
            "25 batches",
            priced(million, million // 25, versions=10),
            "left_outer",
            sides=TEMPORAL,
            temporal=True,
            warms_up=True,
        ),
    ]
    return {scenario.name: scenario for scenario in found}


def _w2(orders: int, batches: float, payload: bool = False) -> Streams:
    """Return W2 with a bound in proportion to its length: an hour for a million orders."""
    return w2(orders, round(orders / batches), orders * HOUR_MS // MILLION, payload)


def _w2_scenarios(orders: int) -> list[Scenario]:
    return [
        Scenario(
            f"w2-{short}-{batches}",
            "w2",
            f"W2: orders and their deliveries within a bound, {words}, {batches} batches",
            _w2(orders, batches),
            how,
            sides=WITH_FILES,
        )
        for batches in (25, 50)
        for short, words, how in _W2_TYPES
    ]


_W2_TYPES: list[tuple[str, str, JoinType]] = [("inner", "inner", "inner"), ("left", "left outer", "left_outer")]


def _growth(millions: float, scale: float) -> Scenario:
    return Scenario(
        f"growth-{millions}",
        "growth",
        f"Growth: W2 at {millions} times its size, and its bound with it; left outer, batches as large as ever",
        _w2(rows(millions * MILLION, scale), batches=25 * millions),
        "left_outer",
        sides=(*OURS, *FLOORS),
    )


def _beyond_budget(matching: int, scale: float) -> Scenario:
    """Return small batches over a state of a GB per task, which can match any part of it."""
    load = rows(4 * MILLION, scale)
    batches = 60
    return Scenario(
        f"beyond-budget-{matching}",
        "beyond-budget",
        f"Beyond the budget: {batches} batches of 50 rows over {load / MILLION:g} M rows of 256 bytes a side, "
        f"{matching} of 100 deliveries have an order, inner",
        loaded(load, batches, 25, bound_ms=load * 10, lag_rows=load, matching=matching, payload=192),
        "inner",
        sides=BUDGETS,
        measured=(11, batches + 1),
    )


CATCH_UP_DAYS = (1, 7, 30)
_CATCH_UP_TYPES: list[tuple[str, str, JoinType, bool]] = [
    ("inner", "inner", "inner", True),
    ("left", "left outer", "left_outer", True),
    ("band", "inner, no equality (Spark: a constant key)", "inner", False),
]


def _catch_up(days: int, short: str, words: str, how: JoinType, has_key: bool) -> Scenario:
    """Return the first batch of a query over a history, which has all of it at any scale."""
    return Scenario(
        f"catch-up-{short}-{days}",
        "catch-up",
        f"Catch up: a history of {days} days, a row each 2.5 s on both sides, in one batch, ±5 s, {words}",
        history(days, has_key),
        how,
        sides=("spark-default", "spark-rocksdb", "ours-default", "ours-rocksdb", *FLOORS),
    )


def _small_batches(scale: float) -> Scenario:
    load = rows(50_000, scale)
    batches = max(rows(200, min(scale, 1)), 60)
    title = f"Small batches: {batches} of 100 rows over a state that slides along with them, inner"
    return _sliding("small-batches", title, load, batches, batch_rows=50, warm_up=20)


def _many_partitions(scale: float) -> Scenario:
    """Return small batches with Spark's default number of partitions: each task has a few rows."""
    load, batches = rows(10_000, scale), 30
    title = f"Many partitions: {batches} batches of 1,000 rows over 200 partitions, inner"
    return replace(_sliding("many-partitions", title, load, batches, batch_rows=500, warm_up=5), partitions=200)


def _many_columns(columns: int, scale: float) -> Scenario:
    """Return batches of wide rows; of small ones there are 10 or more."""
    batches, batch_rows = max(rows(30, min(scale, 1)), 10), rows(1_000, min(scale, 1))
    return Scenario(
        f"columns-{columns}",
        "columns",
        f"Many columns: {columns:,} columns of text a side, all kept; {batches} batches of {batch_rows:,} rows a side, "
        "inner",
        many_columns(columns, batches, batch_rows),
        "inner",
        sides=COMPARED,
        measured=(batches // 3, batches),
        warms_up=True,
    )


def _sliding(name: str, title: str, load: int, batches: int, batch_rows: int, warm_up: int) -> Scenario:
    """Return small batches over a state of constant size: it keeps as much time as the first file covers."""
    streams = loaded(load, batches, batch_rows=batch_rows, bound_ms=load * 5, lag_rows=load * 3 // 2, matching=90)
    measured = (warm_up + 1, batches + 1)
    return Scenario(name, name, title, streams, "inner", sides=EQUAL_FILES, measured=measured, warms_up=True)


def _memory_scenarios(streams: Streams) -> list[Scenario]:
    ours_budget = tuple(f"{side}-budget" for side in OURS)
    return [
        Scenario(
            "memory",
            "memory",
            "Memory: W2, left outer, 25 batches, a garbage collection after each",
            streams,
            "left_outer",
            kind="memory",
            rounds=1,
        ),
        Scenario(
            "budget",
            "budget",
            "State four times the index budget: W2, left outer, 25 batches",
            streams,
            "left_outer",
            sides=("spark-rocksdb", *OURS, *ours_budget),
            kind="budget",
        ),
        Scenario(
            "rebuild",
            "rebuild",
            "Rebuild: W2, left outer, 25 batches, stopped after two thirds and continued by a new process",
            streams,
            "left_outer",
            sides=(*SPARK, *OURS),
            kind="rebuild",
        ),
    ]
