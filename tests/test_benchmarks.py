"""The parts of the benchmarks that need no Spark: inputs, counts of DuckDB, figures, goals, tables."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest
from conftest import ROOT

sys.path.append(str(ROOT / "benchmarks"))

import run
from harness import figures, inputs, machine, measure
from harness.commands import continued_command, new_command
from harness.cpu import SPENT
from harness.figures import extra
from harness.goals import goals, look_ups
from harness.measure import checked, used_heap, warm_batches
from harness.picture import COLORS
from harness.quoted import quoted
from harness.rates import MEASURED, enough, expected_at, highest, hopeless
from harness.report import goals_table, report
from harness.runs import Of, Record, Runs, one_run, read, spread, write
from harness.scenario import LOOK_UPS, current
from harness.scenarios import ELSEWHERE, SELECTIONS, listed, scenarios
from harness.sides import BY_NAME, FLOORS
from harness.steady import Pace

# Two hundred orders in four files.
TINY = 0.00005
SMALL = scenarios(0.001)
ALL = scenarios(1)


def record(scenario: str, side: str, number: int, **more: Any) -> Record:
    """Return the record of a run: ten batches of 100 rows, the later ones in 50 ms."""
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


def test_every_side_and_scenario_can_be_shown() -> None:
    assert set(COLORS) == set(BY_NAME)
    for scenario in ALL.values():
        assert set(scenario.sides) <= set(BY_NAME)
        assert extra(scenario)
    for selection in SELECTIONS.values():
        assert set(selection.names) <= set(ALL)


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


# Runs and tables


def test_a_spread_is_shown_where_there_is_one() -> None:
    assert spread([3.0, 1.0, 2.0], ".1f") == "2.0 (1.0 to 3.0)"
    assert spread([1.01, 1.04], ".1f") == "1.0"


def test_a_table_has_sides_of_one_command_and_jar() -> None:
    old = [record("w2f", "spark-default", 1), record("evict", "ours-default", 1)]
    other = record("w2f", "ours-default", 1)
    for change in ({"run": "second"}, {"environment": other["environment"] | {"streamjoin": "new"}}):
        assert one_run([*old, other | change]) == [old[1], other | change]
    assert one_run([*old, other]) == [*old, other]


def test_ratios_are_of_the_same_round() -> None:
    walls = {("spark-default", 1): 10.0, ("spark-default", 2): 12.0, ("ours-default", 1): 2.0, ("ours-default", 2): 3.0}
    runs = Runs(record("w2f", side, number, wall=wall) for (side, number), wall in walls.items())
    assert runs.ratios(Of("w2f", "spark-default"), Of("w2f", "ours-default")) == [5.0, 4.0]


def test_goals_that_were_not_measured_are_listed() -> None:
    found = goals(Runs([]), ALL, listed("full", []))
    assert len(found) > 60
    assert all(goal.met is None and goal.measured == "-" for goal in found)
    assert {goal.scenario for goal in found} >= {
        "steady-w3",
        "rate",
        "columns-1500",
        "temporal",
        LOOK_UPS,
        "order-left",
    }
    assert {goal.scenario for goal in goals(Runs([]), ALL, listed("full-x2", ["w2f"]))} == {"w2f"}


def test_a_goal_of_a_ratio_is_decided_by_the_median_of_the_rounds() -> None:
    walls = {"spark-default-our-files": [100.0, 61.0, 70.0], "ours-default": [20.0, 10.0, 10.0]}
    name = "steady-w2-inner"
    runs = Runs(
        record(name, side, number, wall=wall) for side, each in walls.items() for number, wall in enumerate(each, 1)
    )
    whole = next(goal for goal in goals(runs, SMALL, {name}) if "whole run" in goal.text)
    assert (whole.measured, whole.met) == ("6.10x (5.00 to 7.00)", True)


def test_goals_are_decided_by_medians_and_show_their_spread() -> None:
    name = "steady-w2-inner"
    spark = faster(name, "spark-default-our-files", 1)
    runs = Runs([*spark, *faster(name, "ours-default", 12), *faster(name, "floor-our-files", 10)])
    warm, whole, floor = goals(runs, SMALL, {name})
    assert (warm.measured, warm.met) == ("12.00x", True) or warm.measured.startswith("12.00x (")
    assert whole.met
    assert floor.measured.startswith("0.83x")
    few = Runs([*spark[:1], *faster(name, "ours-default", 5, rounds=1)])
    warm, whole, floor = goals(few, SMALL, {name})
    assert (warm.measured, warm.met) == ("5.00x, 1 round only", False)
    assert (floor.measured, floor.met) == ("-", None)


def test_a_goal_against_a_side_that_was_ended_is_a_lower_bound() -> None:
    name = "steady-w2-inner"
    ended = record(name, "spark-default-our-files", 1, wall=20.0, unfinished=True, batches={}, hash=None)
    runs = Runs([ended, *faster(name, "ours-default", 1)])
    warm, whole, _ = goals(runs, SMALL, {name})
    assert (warm.measured, warm.met) == ("-", None)
    assert whole.measured.startswith("> 10.2") and whole.met


def test_the_goal_of_look_ups() -> None:
    assert look_ups(None).met is None
    assert look_ups([900_000.0, 1_100_000.0, 1_000_000.0]).met
    assert look_ups([900_000.0]).measured == "900,000, 1 round only"


def test_a_goal_that_another_page_has_refers_to_it() -> None:
    measured, not_measured = look_ups([1_100_000.0] * 3), look_ups(None)
    assert goals_table([not_measured], {}).endswith("| not measured |")
    assert goals_table([not_measured], ELSEWHERE).endswith("| see [look-ups.md](look-ups.md) |")
    assert goals_table([measured], ELSEWHERE).endswith("| yes |")


def test_a_report_shows_warm_next_to_cold(tmp_path: Path) -> None:
    name = "steady-w2-left"
    cpu = {"seconds": dict.fromkeys(SPENT, 2.0), "samples": 900, "rows": 4_000_000, "batchSeconds": 10.0}
    trials = [{"rate": 40_000, "keptUp": True, "medianMs": 800.0, "stateRows": 9, "numbers": 1, "counts": [1, 1]}]
    rate = {"rate": 40_000, "trials": trials, "batches": {}, "operator": None, "hash": None}
    records = [
        *faster(name, "spark-default-our-files", 1),
        *faster(name, "ours-default", 9),
        record(name, "floor-our-files", 1),
        record("steady-cpu-w2-left", "ours-default", 1, cpu=cpu),
        record("steady-heap-w2-left", "ours-default", 1, peakHeapBytes=5_000_000),
        record("rate", "ours-default", 1, **rate),
    ]
    write(tmp_path / "headline-x0.001.jsonl", records)
    summary = report(tmp_path, "headline-x0.001", 0.001)
    text = (tmp_path / "headline-x0.001.md").read_text()
    lines = {line.split("|")[1].strip(): line for line in text.splitlines() if line.startswith("|")}
    assert "9.00" in lines["times as fast as spark-default-our-files"]
    assert "18,3" in lines["rows per second, warm"]
    assert "9.00" in lines["times as fast as spark-default-our-files, warm"]
    assert "0.11" in lines["times the floor-our-files, warm"]
    assert "4,000" in lines["rows per second, whole run (cold)"]
    assert "0.500" in lines["CPU s a million rows: shuffle"]
    assert "40,000" in lines["highest rate, rows a second"]
    assert "not measured" in summary
    assert "## With equal checkpoint files, all written by streamjoin" in text
    assert (tmp_path / "headline-x0.001.svg").exists()


def test_pages_quote_what_was_measured() -> None:
    records = current(read(ROOT / "benchmarks" / "results" / "headline.jsonl"), ALL)
    pages = quoted(Runs(one_run(records)), ALL)
    assert [file.name for file in pages] == ["README.md", "benchmarks.md"]
    for file, text in pages.items():
        assert text == file.read_text(), f"{file.name}: python benchmarks/run.py --report-only"


def test_pages_quote_only_a_whole_headline() -> None:
    assert quoted(Runs(faster("steady-w2-left", "ours-default", 9)), ALL) == {}


def test_batches_count_as_warm_from_a_time() -> None:
    batches = {"numInputRows": [9.0] * 10 + [1.0], "triggerExecution": [1000.0] * 11}
    order = ALL["order-inner"]
    assert order.steady(batches["numInputRows"]) == [3, 4, 5, 6, 7, 8, 9]
    assert len(warm_batches(order, batches, -5)["numInputRows"]) == 7
    assert warm_batches(order, batches, 8)["triggerExecution"] == [1000.0] * 2
    assert warm_batches(order, batches, 60) == {"numInputRows": [], "triggerExecution": []}
    assert ALL["small-batches"].steady([5.0] * 30) == list(range(21, 30))


def test_warm_figures_are_of_the_batches_that_count() -> None:
    scenario = SMALL["small-batches"]
    warm = {"batches": {"numInputRows": [100.0, 100.0], "triggerExecution": [20.0, 30.0]}}
    cold, both = (Runs([record("small-batches", "ours-default", 1, **more)]).all()[0] for more in ({}, {"warm": warm}))
    assert figures.warm(scenario)(cold) == 2000
    assert figures.warm(scenario)(both) == 4000
    assert figures.measured(scenario, ["triggerExecution"], max)(both) == 30
    assert figures.measured(scenario, ["queryPlanning"], max)(both) is None
    assert figures.warm(ALL["small-batches"])(cold) is None


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
