"""The tables, as Markdown, made only from the records of the runs."""

from collections.abc import Iterable
from pathlib import Path

from harness.figures import GROWTH, STATE, TIMES, Figure, extra
from harness.goals import Goal, goals
from harness.picture import picture
from harness.runs import Record, Runs, read, wall
from harness.scenarios import Scenario, current, scenarios
from harness.sides import ALL, FLOORS, WITH_STATE


def report(results: Path, name: str, scale: float) -> str:
    """Write the tables and the picture of a comparison next to its records.

    Args:
        results: the folder with ``<name>.jsonl``, where ``<name>.md`` and ``<name>.svg`` go.
        name: of the comparison.
        scale: how large its scenarios are.

    Returns:
        What to show at the end of a run: the times, and the goals.
    """
    records = current(read(results / f"{name}.jsonl"), scenarios(scale))
    if not records:
        return f"Nothing has run yet: {name}.jsonl has no records."
    runs = Runs(records)
    ran = {key: scenario for key, scenario in scenarios(scale).items() if runs.has(key)}
    summary = f"{_times(runs, ran)}\n\n{goals_table(goals(runs, ran))}"
    parts = [
        f"# Benchmarks: {name}",
        environment(records),
        f"![the same as a picture]({name}.svg)",
        "## Seconds of a run: median (least)",
        _times(runs, ran),
        "## Goals",
        "They are set for the full size." + ("" if scale == 1 else f" This is {scale:g} of it."),
        goals_table(goals(runs, ran)),
        *_growth(runs, [scenario for scenario in ran.values() if scenario.group == "growth"]),
        *(part for scenario in ran.values() for part in section(runs, scenario)),
    ]
    (results / f"{name}.md").write_text("\n\n".join(parts) + "\n")
    (results / f"{name}.svg").write_text(picture(runs, ran))
    return summary


def environment(records: list[Record]) -> str:
    """Return where, when and with what it was measured: every distinct value in the records."""
    names = list(dict.fromkeys(name for record in records for name in record["environment"]))
    rows = []
    for name in names:
        values = dict.fromkeys(record["environment"].get(name, "-") for record in records)
        if name == "date":
            values = dict.fromkeys([min(values), max(values)])
        rows.append([name, " … ".join(values) if name == "date" else "<br>".join(f"`{value}`" for value in values)])
    return table(["", ""], rows, right=False)


def _times(runs: Runs, ran: dict[str, Scenario]) -> str:
    """Return one line per scenario and one column per side."""
    timed = [scenario for scenario in ran.values() if scenario.kind != "memory"]
    sides = [side.name for side in ALL if any(runs.of(scenario.name, side.name) for scenario in timed)]
    rows = [[scenario.name, *(_median_and_least(runs, scenario, side) for side in sides)] for scenario in timed]
    return table(["", *sides], rows)


def _median_and_least(runs: Runs, scenario: Scenario, side: str) -> str:
    median, least = (take(scenario.name, side, wall) for take in (runs.median, runs.least))
    if median is None:
        return "-"
    return f"{_more(runs, scenario, side)}{median:.1f} ({least:.1f})"


def _more(runs: Runs, scenario: Scenario, side: str) -> str:
    """Return the prefix of a time that is only a lower bound, because a run was ended."""
    return "" if runs.finished(scenario.name, side) else "> "


def goals_table(found: list[Goal]) -> str:
    """Return the goals, each with what was measured."""
    words = {True: "yes", False: "**no**", None: "not measured"}
    return table(["goal", "measured", "met"], [[goal.text, goal.measured, words[goal.met]] for goal in found])


def _growth(runs: Runs, growing: list[Scenario]) -> Iterable[str]:
    """Return a table with one column a size, if there are several."""
    if len(growing) < 2:
        return
    sides = [side.name for side in ALL if any(runs.of(scenario.name, side.name) for scenario in growing)]
    yield "## growth"
    yield table(
        ["", *(scenario.name for scenario in growing)],
        [
            [f"{side}: {figure.name}", *(_cell(runs, scenario.name, side, figure) for scenario in growing)]
            for figure in GROWTH
            for side in sides
        ],
    )


def section(runs: Runs, scenario: Scenario) -> Iterable[str]:
    """Return the heading, the result and the table of a scenario."""
    sides = [side.name for side in ALL if runs.of(scenario.name, side.name)]
    yield f"## {scenario.name}"
    yield f"{scenario.title}."
    joins = (run for side in sides if side not in FLOORS for run in runs.of(scenario.name, side) if run.finished)
    if (join := next(joins, None)) is not None:
        rows, (out, pairs) = join.record["inputRows"], join.record["counts"]
        yield f"{rows:,} rows in, {out:,} out, {pairs:,} of them pairs: the same rows in every run."
    yield table(["", *sides], _lines(runs, scenario, sides))


def _lines(runs: Runs, scenario: Scenario, sides: list[str]) -> list[list[str]]:
    """Return the lines of a scenario's table, without those that no side has."""
    name = scenario.name
    lines = [
        ["operator", *(runs.of(name, side)[0].record["operator"] or "-" for side in sides)],
        ["rounds", *(str(len(runs.of(name, side))) for side in sides)],
    ]
    figures = [*extra(scenario), *STATE]
    if scenario.kind != "memory":
        lines += _walls(runs, scenario, sides)
        figures = [*extra(scenario), *TIMES, *STATE]
    for figure in figures:
        cells = [_cell(runs, name, side, figure) for side in sides]
        if any(cell != "-" for cell in cells):
            lines.append([figure.name, *cells])
    return lines


def _walls(runs: Runs, scenario: Scenario, sides: list[str]) -> list[list[str]]:
    """Return the lines on the time of a whole run, and how it compares."""
    medians = {side: runs.median(scenario.name, side, wall) or 0 for side in sides}
    more = {side: _more(runs, scenario, side) for side in sides}
    lines = [
        ["wall, median s", *(f"{more[side]}{medians[side]:.1f}" for side in sides)],
        ["wall, least s", *(f"{more[side]}{runs.least(scenario.name, side, wall):.1f}" for side in sides)],
    ]
    for base in ("spark-default", "spark-default-our-files", "spark-rocksdb", "spark-rocksdb-v4", *WITH_STATE):
        if base in medians:
            cells = [_times_as_fast(more[base], more[side], medians[base] / medians[side]) for side in sides]
            lines.append([f"times as fast as {base}", *cells])
    for base in FLOORS:
        if base in medians:
            lines.append([f"times the {base}", *(f"{more[side]}{medians[side] / medians[base]:.2f}" for side in sides)])
    return lines


def _times_as_fast(base_more: str, side_more: str, ratio: float) -> str:
    """Return a ratio of two times, each of which may be only a lower bound."""
    if base_more and side_more:
        return "-"
    return f"{base_more}{'< ' if side_more else ''}{ratio:.2f}"


def _cell(runs: Runs, scenario: str, side: str, figure: Figure) -> str:
    value = runs.median(scenario, side, figure.value)
    return "-" if value is None else f"{value:,.{figure.decimals}f}"


def table(header: list[str], rows: list[list[str]], right: bool = True) -> str:
    """Return a table that reads well as Markdown and as plain text.

    Args:
        header: its first line.
        rows: the others.
        right: whether all columns but the first stand to the right.
    """
    widths = [max(len(line[at]) for line in [header, *rows]) for at in range(len(header))]

    def text(cells: list[str]) -> str:
        padded = [
            cell.rjust(width) if right and at else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = [("-" * (width + 1) + (":" if right and at else "-")) for at, width in enumerate(widths)]
    return "\n".join([text(header), f"|{'|'.join(rule)}|", *(text(row) for row in rows)])
