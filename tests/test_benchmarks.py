"""How the benchmarks run, without Spark: inputs, the counts of DuckDB, rates, commands, what a process returns."""

import argparse
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest
import run
from harness import inputs, machine, measure
from harness.commands import continued_command, new_command
from harness.measure import checked, used_heap, warm_batches
from harness.rates import MEASURED, enough, expected_at, highest, hopeless
from harness.runs import Record, Runs
from harness.scenarios import scenarios
from harness.sides import BY_NAME, FLOORS
from harness.steady import Pace
from made_runs import ALL, SMALL, record

# Two hundred orders in four files.
TINY = 0.00005


# Streams


def test_files_of_a_long_stream_are_the_same_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    streams = Pace(TINY * 4).w2()
    whole = inputs.generate(streams, tmp_path / "whole")
    monkeypatch.setattr(inputs, "PART_ROWS", 30)
    parts = inputs.generate(streams, tmp_path / "parts")
    for table in streams.tables:
        files = sorted(file.relative_to(whole) for file in (whole / table.name).iterdir())
        assert len(files) == 81
        for file in files:
            assert (
                duckdb.read_parquet(str(whole / file)).fetchall() == duckdb.read_parquet(str(parts / file)).fetchall()
            )


def test_no_row_of_a_steady_stream_is_late_and_its_state_is_level(tmp_path: Path) -> None:
    pace = Pace(0.01)
    streams = pace.w3(pace.w2())
    folder = inputs.generate(streams, tmp_path)
    for table in streams.tables:
        assert len(list((folder / table.name).iterdir())) == 81
        window = "(ORDER BY filename ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
        query = f"""
            SELECT count(*), epoch_ms(min({table.time})), epoch_ms(max(max({table.time})) OVER {window})
            FROM read_parquet('{folder}/{table.name}/*.parquet', filename = true) GROUP BY filename ORDER BY filename
        """
        with inputs.connect() as db:
            files = db.execute(query).fetchall()
        assert all(first >= before - streams.delay_ms for _, first, before in files[1:])
        rows = [rows for rows, _, _ in files]
        # In a short input, the last streams begin late.
        assert sum(rows[-41:-21]) == pytest.approx(sum(rows[-21:-1]), rel=0.03)


@pytest.mark.parametrize("name", ["steady-w2-left", "steady-w2f", "steady-w3", "columns-300", "band-hour"])
def test_duckdb_counts_the_rows_of_a_scenario(tmp_path: Path, name: str) -> None:
    scenario = scenarios(0.002)[name]
    inputs.generate(scenario.streams, tmp_path)
    rows, matched = inputs.expected_join(scenario.streams, scenario.how, tmp_path)
    united, last = inputs.expected_union(scenario.streams, tmp_path)
    assert rows >= matched > 0
    assert united > last > 0
    if scenario.how == "left_outer":
        assert rows > matched


def test_duckdb_counts_the_rows_of_a_rate() -> None:
    streams = scenarios(0.001)["rate"].streams
    # 240 rows are as far apart as the bound.
    lags = {number: number * 7919 % 360 for number in range(1000) if number % 10 < 9}
    pairs = sum(lag <= min(number, 240) for number, lag in lags.items())
    assert expected_at(streams, 1000) == [pairs, pairs]


# The search of a rate


@pytest.mark.parametrize("limit", [1_500, 19_999, 20_000, 64_000, 700_000])
def test_the_highest_rate_is_found(limit: int) -> None:
    tried: list[int] = []
    found = highest(lambda rate: tried.append(rate) or rate <= limit)  # type: ignore[func-returns-value]
    assert found and found <= limit < 1.11 * found
    assert len(tried) == len(set(tried)) <= 12


def test_no_rate_is_too_low_to_say_so() -> None:
    assert highest(lambda _: False) is None


def test_nine_of_ten_batches_have_to_end_within_their_second() -> None:
    good = [1000.0] * (MEASURED - 2) + [5000.0] * 2
    assert enough(good) and not hopeless(good)
    bad = [900.0] * (MEASURED - 3) + [1001.0] * 3
    assert not enough(bad) and hopeless(bad)
    assert not enough(good[1:]) and not hopeless(good[1:])


# Runs


def test_batches_count_as_warm_from_a_time() -> None:
    batches = {"numInputRows": [9.0] * 10 + [1.0], "triggerExecution": [1000.0] * 11}
    order = ALL["order-inner"]
    assert order.steady(batches["numInputRows"]) == [3, 4, 5, 6, 7, 8, 9]
    assert len(warm_batches(order, batches, -5)["numInputRows"]) == 7
    assert warm_batches(order, batches, 8)["triggerExecution"] == [1000.0] * 2
    assert warm_batches(order, batches, 60) == {"numInputRows": [], "triggerExecution": []}
    assert ALL["small-batches"].steady([5.0] * 30) == list(range(21, 30))


def arguments(**chosen: Any) -> argparse.Namespace:
    return argparse.Namespace(**({"selection": "full", "sides": None, "scale": 1.0} | chosen))


def test_a_part_has_results_of_its_own() -> None:
    assert run.results_name(arguments()) == "full"
    assert run.results_name(arguments(scale=128.0)) == "full-x128"
    assert run.results_name(arguments(sides=["floor"], scale=0.1)) == "full-xsides-x0.1"


def test_a_command_replaces_all_sides_of_its_scenarios() -> None:
    old = [record("w2f", "spark-default", 1), record("evict", "ours-default", 1)]
    command, kept = new_command(old, {"w2f"})
    assert command > "2026"
    assert kept == old[1:]


def test_a_command_is_continued_on_the_same_machine_and_jar(monkeypatch: pytest.MonkeyPatch) -> None:
    now = {"CPU": "c", "memory": "m", "OS": "o"}
    monkeypatch.setattr(machine, "machine", lambda: now)
    monkeypatch.setattr(machine, "project", lambda: {"streamjoin": "jar"})
    older = [record("w2f", "spark-default", 1, run="zeroth"), record("evict", "ours-default", 1, run="zeroth")]
    last = record("w2f", "ours-default", 1)
    assert continued_command([*older, last], {"w2f"}) == ("first", [older[1], last])
    assert continued_command([], {"w2f"})[1] == []
    monkeypatch.setattr(machine, "machine", lambda: now | {"OS": "new kernel"})
    with pytest.raises(SystemExit, match=r"OS: o, now new kernel\. Run it without --resume"):
        continued_command([last], {"w2f"})


def test_the_result_of_each_trial_is_compared(tmp_path: Path) -> None:
    scenario = SMALL["rate"]
    trials = [{"counts": [1, 1], "numbers": 500}, {"counts": [2, 2], "numbers": 1000}]
    ours = run.Job(scenario, BY_NAME["ours-default"], 1)
    assert [expected for _, expected in run.results(ours, {"trials": trials}, tmp_path)] == [
        expected_at(scenario.streams, 500),
        expected_at(scenario.streams, 1000),
    ]
    floor = replace(ours.side, name=FLOORS[0], engine="floor")
    found = run.results(run.Job(scenario, floor, 1), {"trials": trials}, tmp_path)
    assert found == [([1, 1], [1000, 500]), ([2, 2], [2000, 1000])]


@pytest.mark.parametrize(
    ("found", "wrong"),
    [
        ({"rowsOut": 8}, None),
        ({"rowsOut": 8, "counts": [8, 5], "hash": 3}, None),
        ({"rowsOut": 7}, r"\[7\] rows and matched rows were emitted, DuckDB has \[8\]"),
        ({"rowsOut": 8, "counts": [8, 4], "hash": 3}, r"\[8, 4\] rows .* DuckDB has \[8, 5\]"),
        (
            {"rowsOut": 8, "counts": [8, 5], "hash": 4},
            "as many rows as with spark-default in round 1, but not the same",
        ),
    ],
    ids=["not observed", "observed", "a row too few", "an unmatched row too many", "another value"],
)
def test_a_run_is_compared_by_what_it_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: Record, wrong: str | None
) -> None:
    monkeypatch.setattr(run, "expected_join", lambda *_: [8, 5])
    job = run.Job(SMALL["steady-w2-left"], BY_NAME["ours-default"], 1)
    benchmark = run.Benchmark([], 0.001, tmp_path, tmp_path / "records", 60)
    observed = record("steady-w2-left", "spark-default", 1, counts=[8, 5], hash=3)
    not_observed = {name: value for name, value in observed.items() if name not in ("counts", "hash")}
    benchmark.runs = Runs([observed, not_observed | {"round": 2}])
    if wrong is None:
        benchmark._check(job, found)
    else:
        with pytest.raises(SystemExit, match=wrong):
            benchmark._check(job, found)


def test_a_run_that_is_observed_has_as_many_rows_as_those_that_were_timed() -> None:
    observed = {"rowsOut": 8, "counts": [8, 5], "hash": 3, "wall": 1.0}
    assert checked(observed, {"rowsOut": 8}) == {"counts": [8, 5], "hash": 3}
    with pytest.raises(SystemExit, match="7 rows while it was timed, 8 in a run that observes them"):
        checked(observed, {"rowsOut": 7})


def test_the_heap_is_what_a_collection_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    young = SimpleNamespace(getCollectionCount=lambda: 7)
    # The collector skips the first two requests.
    old = SimpleNamespace(getCollectionCount=lambda: 3 + (len(asked) > 2))

    def pool(kind: str, used: int) -> SimpleNamespace:
        usage = SimpleNamespace(getUsed=lambda: used)
        return SimpleNamespace(getType=lambda: SimpleNamespace(name=lambda: kind), getCollectionUsage=lambda: usage)

    management = SimpleNamespace(
        getGarbageCollectorMXBeans=lambda: [young, old],
        getMemoryPoolMXBeans=lambda: [pool("HEAP", 0), pool("NON_HEAP", 500), pool("HEAP", 40)],
    )
    lang = SimpleNamespace(
        System=SimpleNamespace(gc=lambda: asked.append(True)),
        management=SimpleNamespace(ManagementFactory=management),
    )
    monkeypatch.setattr(measure, "jvm", lambda _: SimpleNamespace(java=SimpleNamespace(lang=lang)))
    session: Any = None
    assert used_heap(session) == 40
    assert len(asked) == 3
