"""What the benchmarks write of their runs: figures, goals, tables, and the pages that quote them."""

from pathlib import Path

from conftest import ROOT
from harness import figures
from harness.cpu import SPENT
from harness.figures import extra
from harness.goals import goals, look_ups
from harness.picture import COLORS
from harness.quoted import quoted
from harness.report import goals_table, report
from harness.runs import Of, Runs, one_run, read, spread, write
from harness.scenario import LOOK_UPS, current
from harness.scenarios import ELSEWHERE, SELECTIONS, listed
from harness.sides import BY_NAME
from made_runs import ALL, SMALL, faster, record


def test_every_side_and_scenario_can_be_shown() -> None:
    assert set(COLORS) == set(BY_NAME)
    for scenario in ALL.values():
        assert set(scenario.sides) <= set(BY_NAME)
        assert extra(scenario)
    for selection in SELECTIONS.values():
        assert set(selection.names) <= set(ALL)


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


def test_warm_figures_are_of_the_batches_that_count() -> None:
    scenario = SMALL["small-batches"]
    warm = {"batches": {"numInputRows": [100.0, 100.0], "triggerExecution": [20.0, 30.0]}}
    cold, both = (Runs([record("small-batches", "ours-default", 1, **more)]).all()[0] for more in ({}, {"warm": warm}))
    assert figures.warm(scenario)(cold) == 2000
    assert figures.warm(scenario)(both) == 4000
    assert figures.measured(scenario, ["triggerExecution"], max)(both) == 30
    assert figures.measured(scenario, ["queryPlanning"], max)(both) is None
    assert figures.warm(ALL["small-batches"])(cold) is None
