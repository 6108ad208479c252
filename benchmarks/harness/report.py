"""The tables, as Markdown, made only from the records of the runs."""

from collections.abc import Iterable
from pathlib import Path

from harness.figures import GROWTH, STATE, TIMES, Figure, extra, warm
from harness.goals import Goal, goals
from harness.machine import SAME
from harness.picture import picture
from harness.quoted import quoted
from harness.runs import Of, Record, Runs, Value, emitted, one_run, read, spread, wall
from harness.scenario import Scenario, current
from harness.scenarios import ELSEWHERE, listed, scenarios
from harness.sides import ALL, FLOOR_OUR_FILES, FLOORS, OURS, SPARK_OUR_FILES, WITH_STATE

# What the ratios of a table are about.
BASES = ("spark-default", *SPARK_OUR_FILES, "spark-rocksdb", "spark-rocksdb-changelog", "spark-rocksdb-v4", *WITH_STATE)


def report(results: Path, name: str, scale: float) -> str:
    """Write the tables and the picture of a comparison next to its records, and the headline into pages that quote it.

    Args:
        results: the folder with ``<name>.jsonl``, where ``<name>.md`` and ``<name>.svg`` go.
        name: of the comparison.
        scale: how large its scenarios are.

    Returns:
        What to show at the end of a run: the times, and the goals.
    """
    known = scenarios(scale)
    records = one_run(current(read(results / f"{name}.jsonl"), known))
    if not records:
        return f"Nothing has run yet: {name}.jsonl has no records."
    runs = Runs(records)
    ran = {key: scenario for key, scenario in known.items() if runs.has(key)}
    found = goals_table(goals(runs, known, listed(name, ran)), ELSEWHERE if name == "full" else {})
    headline = equal_files(runs, ran)
    summary = "\n\n".join(filter(None, [headline, _times(runs, ran), found]))
    parts = [
        f"# Benchmarks: {name}",
        environment(records),
        "All sides of a table are of one command, machine, kernel and jar, and take turns in each round. Values are "
        "medians of the rounds with the least and the most; a ratio is of the same round.",
        *(["## With equal checkpoint files, all written by streamjoin", headline] if headline else []),
        f"![the same as a picture]({name}.svg)",
        "## Seconds of a whole run: median (least to most)",
        _times(runs, ran),
        "## Goals",
        "They are set for the full size." + ("" if scale == 1 else f" This is {scale:g} of it."),
        found,
        *_growth(runs, [scenario for scenario in ran.values() if scenario.group == "growth"]),
        *(part for scenario in ran.values() for part in section(runs, scenario)),
    ]
    (results / f"{name}.md").write_text("\n\n".join(parts) + "\n")
    (results / f"{name}.svg").write_text(picture(runs, ran))
    if name == "headline":
        for page, text in quoted(runs, known).items():
            page.write_text(text)
    return summary


def equal_files(runs: Runs, ran: dict[str, Scenario]) -> str:
    """Return the comparison that nothing but the join and its state decides, cold next to warm; empty if none ran.

    Spark's side is that of its state stores that is the fastest when warm.
    """
    rows = []
    for scenario in ran.values():
        speed = warm(scenario)
        best = runs.best(scenario.name, SPARK_OUR_FILES, speed)
        if not scenario.is_timed or best is None:
            continue
        for ours in OURS:
            if runs.of(scenario.name, ours):
                cells = [_ratio(runs, scenario, best, ours, wall), _ratio(runs, scenario, ours, best, speed)]
                floor = _ratio(runs, scenario, FLOOR_OUR_FILES, ours, speed)
                shown = [spread(runs.values(scenario.name, side, speed), ",.0f") for side in (best, ours)]
                rows.append([scenario.name, ours, best, *shown, *cells, floor])
    header = ["", "side", "Spark's best", "its rows/s, warm", "rows/s, warm", "x whole run", "x warm", "x floor, warm"]
    return table(header, rows) if rows else ""


def _ratio(runs: Runs, scenario: Scenario, side: str, base: str, value: Value) -> str:
    found = runs.ratios(Of(scenario.name, side, value), Of(scenario.name, base, value))
    return spread(found, ".2f") if found else "-"


def environment(records: list[Record]) -> str:
    """Return where, when and with what it was measured: every distinct value in the records."""
    names = list(dict.fromkeys(name for record in records for name in record["environment"]))
    lines = []
    for name in names:
        values = dict.fromkeys(record["environment"].get(name, "-") for record in records)
        shown = _from_to(values) if name == "date" else ", ".join(f"`{value}`" for value in values)
        lines.append(f"- {name}: {shown}")
    return "\n".join(lines)


def _times(runs: Runs, ran: dict[str, Scenario]) -> str:
    """Return one line per scenario and one column per side."""
    timed = [scenario for scenario in ran.values() if scenario.is_timed]
    sides = [side.name for side in ALL if any(runs.of(scenario.name, side.name) for scenario in timed)]
    rows = [[scenario.name, *(_seconds(runs, scenario, side) for side in sides)] for scenario in timed]
    return table(["", *sides], rows)


def _seconds(runs: Runs, scenario: Scenario, side: str) -> str:
    values = runs.values(scenario.name, side, wall)
    return _more(runs, scenario, side) + spread(values, ".1f") if values else "-"


def _more(runs: Runs, scenario: Scenario, side: str) -> str:
    """Return the prefix of a time that is only a lower bound, because a run was ended."""
    return "" if runs.finished(scenario.name, side) else "> "


def goals_table(found: list[Goal], elsewhere: dict[str, str]) -> str:
    """Return the goals, each with what was measured.

    Args:
        found: the goals.
        elsewhere: the pages of the scenarios that have one of their own, to which goals without a value refer.
    """
    words = {True: "yes", False: "**no**", None: "not measured"}
    rows = []
    for goal in found:
        page = elsewhere.get(goal.scenario) if goal.met is None else None
        rows.append([goal.text, goal.measured, f"see [{page}]({page})" if page else words[goal.met]])
    return table(["goal", "measured", "met"], rows)


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
    yield f"{scenario.title}. {origin_line([run.record for side in sides for run in runs.of(scenario.name, side)])}"
    joins = [
        run.record
        for side in sides
        if side not in FLOORS
        for run in runs.of(scenario.name, side)
        if run.finished and scenario.kind != "rate"
    ]
    if joins:
        out, *matched = max(map(emitted, joins), key=len)
        words = "".join(f", {number:,} of them matched" for number in matched)
        yield f"{joins[0]['inputRows']:,} rows in, {out:,} out{words}: the same rows in every run."
    yield table(["", *sides], _lines(runs, scenario, sides))


def origin_line(records: list[Record]) -> str:
    """Return when the runs of a table were, and what all of them have in common."""
    where = records[0]["environment"]
    same = ", ".join(where[name] for name in SAME)
    return f"Measured {_from_to(record['environment']['date'] for record in records)}: {same}."


def _from_to(dates: Iterable[str]) -> str:
    """Return the first and the last date, or the only one."""
    ordered = sorted(dates)
    return " … ".join(dict.fromkeys([ordered[0], ordered[-1]]))


def _lines(runs: Runs, scenario: Scenario, sides: list[str]) -> list[list[str]]:
    """Return the lines of a scenario's table, without those that no side has."""
    name = scenario.name
    lines = [
        ["operator", *(runs.of(name, side)[0].record["operator"] or "-" for side in sides)],
        ["rounds", *(str(len(runs.of(name, side))) for side in sides)],
    ]
    figures = [*extra(scenario), *STATE]
    if scenario.is_timed:
        lines += _walls(runs, scenario, sides)
        figures = [*extra(scenario), *TIMES, *STATE]
    for figure in figures:
        cells = [_cell(runs, name, side, figure) for side in sides]
        if any(cell != "-" for cell in cells):
            lines.append([figure.name, *cells])
    return lines


def _walls(runs: Runs, scenario: Scenario, sides: list[str]) -> list[list[str]]:
    """Return the lines on the time of a whole run, and how it compares, cold and warm."""
    lines = [["wall, s", *(_seconds(runs, scenario, side) for side in sides)]]
    speed = warm(scenario)
    for base in (base for base in BASES if base in sides):
        cold = [_times_as_fast(runs, scenario, base, side) for side in sides]
        lines.append([f"times as fast as {base}", *cold])
        lines.append([f"{lines[-1][0]}, warm", *(_ratio(runs, scenario, side, base, speed) for side in sides)])
    for base in (base for base in FLOORS if base in sides):
        lines.append([f"times the {base}", *(_times_as_long(runs, scenario, base, side) for side in sides)])
        lines.append([f"{lines[-1][0]}, warm", *(_ratio(runs, scenario, base, side, speed) for side in sides)])
    return lines


def _times_as_fast(runs: Runs, scenario: Scenario, base: str, side: str) -> str:
    """Return a ratio of two times, each of which may be only a lower bound."""
    base_more, side_more = _more(runs, scenario, base), _more(runs, scenario, side)
    if not base_more and not side_more:
        return _ratio(runs, scenario, base, side, wall)
    if base_more and side_more:
        return "-"
    return f"{base_more}{'< ' if side_more else ''}{_of_medians(runs, scenario, base, side):.2f}"


def _times_as_long(runs: Runs, scenario: Scenario, base: str, side: str) -> str:
    more = _more(runs, scenario, side)
    if not more:
        return _ratio(runs, scenario, side, base, wall)
    return f"{more}{_of_medians(runs, scenario, side, base):.2f}"


def _of_medians(runs: Runs, scenario: Scenario, side: str, base: str) -> float:
    """Return the ratio of two times, one of which was ended at the limit."""
    found, other = (runs.median(scenario.name, each, wall) for each in (side, base))
    assert found and other, f"{side} and {base} have not run"
    return found / other


def _cell(runs: Runs, scenario: str, side: str, figure: Figure) -> str:
    values = runs.values(scenario, side, figure.value)
    return spread(values, f",.{figure.decimals}f") if values else "-"


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
