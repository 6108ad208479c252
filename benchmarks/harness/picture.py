"""The picture: bars of the median seconds of each scenario, and lines of the growth. Plain SVG."""

from html import escape
from typing import NamedTuple

from harness.figures import rows_per_second
from harness.runs import Runs, wall
from harness.scenario import Scenario
from harness.sides import ALL

COLORS = {
    "spark-default": "#e07b39",
    "spark-default-our-files": "#eda673",
    "spark-rocksdb": "#b8552a",
    "spark-rocksdb-changelog": "#a8653f",
    "spark-rocksdb-changelog-our-files": "#c79a80",
    "spark-rocksdb-v4": "#8c3b1f",
    "spark-rocksdb-v4-our-files": "#b98472",
    "ours-default": "#2a7fb8",
    "ours-default-spark-files": "#57a3d1",
    "ours-default-ordered": "#1d5c88",
    "ours-rocksdb": "#1b4f80",
    "ours-default-budget": "#7db8dc",
    "ours-rocksdb-budget": "#5c8db5",
    "ours-rocksdb-within": "#1b4f80",
    "ours-rocksdb-64m": "#5c8db5",
    "with-state": "#6a3d9a",
    "with-state-buckets": "#a98bc9",
    "floor": "#9a9a9a",
    "floor-our-files": "#c4c4c4",
}
WIDTH = 860
LEFT = 170
BAR = 15
GAP = 28
PLOT = 240


class Drawing(NamedTuple):
    """Some elements, and how high they are together."""

    elements: list[str]
    height: float


def picture(runs: Runs, ran: dict[str, Scenario]) -> str:
    """Return an SVG of the scenarios that ran."""
    bars = [scenario for scenario in ran.values() if scenario.is_timed and scenario.group != "growth"]
    growing = [scenario for scenario in ran.values() if scenario.group == "growth"]
    drawings = [_bars(runs, scenario) for scenario in bars]
    if len(growing) > 1:
        drawings.append(_lines(runs, growing))
    elements: list[str] = []
    top = 20.0
    for drawing in drawings:
        elements += [f'<g transform="translate(0 {top:.0f})">', *drawing.elements, "</g>"]
        top += drawing.height + GAP
    return svg(elements, top)


def svg(elements: list[str], height: float) -> str:
    """Return elements as a whole picture."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}" '
            f'viewBox="0 0 {WIDTH} {height:.0f}" font-family="sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{height:.0f}" fill="white"/>',
            *elements,
            "</svg>\n",
        ]
    )


def _bars(runs: Runs, scenario: Scenario) -> Drawing:
    """Return the median seconds of each side; a thin line ends at the least."""
    medians = {side.name: median for side in ALL if (median := runs.median(scenario.name, side.name, wall)) is not None}
    scale = (WIDTH - LEFT - 70) / max(medians.values())
    elements = [text(10, 10, f"{scenario.name}: seconds, median of the rounds", "start", bold=True)]
    for at, (side, median) in enumerate(medians.items()):
        top = 20 + at * (BAR + 4)
        least = min(runs.values(scenario.name, side, wall))
        more = "" if runs.finished(scenario.name, side) else "> "
        elements += [
            text(LEFT - 8, top + BAR - 3, side, "end"),
            rectangle(LEFT, top, median * scale, BAR, COLORS[side]),
            rectangle(LEFT, top + BAR / 2, least * scale, 1, "white"),
            text(LEFT + median * scale + 6, top + BAR - 3, f"{more}{median:.1f}", "start"),
        ]
    return Drawing(elements, 20 + len(medians) * (BAR + 4))


def _lines(runs: Runs, growing: list[Scenario]) -> Drawing:
    """Return the rows per second by the millions of orders, a line for each side."""
    sizes = [float(scenario.name.removeprefix("growth-")) for scenario in growing]
    lines = {
        side.name: points
        for side in ALL
        if (
            points := [
                (size, value)
                for size, scenario in zip(sizes, growing, strict=True)
                if (value := runs.median(scenario.name, side.name, rows_per_second)) is not None
            ]
        )
    }
    highest = max(value for values in lines.values() for _, value in values)

    def x(size: float) -> float:
        return LEFT + size / max(sizes) * (WIDTH - LEFT - 150)

    def y(value: float) -> float:
        return 30 + PLOT * (1 - value / highest)

    elements = [
        text(10, 10, "growth: rows per second of the whole run, by millions of orders", "start", bold=True),
        line([(x(0), y(0)), (x(max(sizes)), y(0))], "#cccccc"),
        text(LEFT - 8, y(highest) + 4, f"{highest:,.0f}", "end"),
        text(LEFT - 8, y(0) + 4, "0", "end"),
        *(text(x(size), y(0) + 16, f"{size:g}", "middle") for size in sizes),
    ]
    for side, values in lines.items():
        points = [(x(size), y(value)) for size, value in values]
        elements += [
            line(points, COLORS[side]),
            *(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3" fill="{COLORS[side]}"/>' for px, py in points),
        ]
    ends = {side: y(values[-1][1]) for side, values in lines.items()}
    for side, place in _apart(ends, 14).items():
        words = f"{side} {lines[side][-1][1]:,.0f}"
        elements.append(text(x(lines[side][-1][0]) + 8, place + 4, words, "start"))
    return Drawing(elements, PLOT + 60)


def _apart(places: dict[str, float], distance: float) -> dict[str, float]:
    """Return places from top to bottom, moved down where they would be closer than a distance."""
    moved: dict[str, float] = {}
    for name in sorted(places, key=lambda each: places[each]):
        moved[name] = max(places[name], max(moved.values(), default=-distance) + distance)
    return moved


def text(x: float, y: float, words: str, anchor: str, bold: bool = False) -> str:
    """Return words at a place."""
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{weight}>{escape(words)}</text>'


def rectangle(x: float, y: float, width: float, height: float, color: str) -> str:
    """Return a filled rectangle."""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{color}"/>'


def line(points: list[tuple[float, float]], color: str) -> str:
    """Return a line through points."""
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{places}" fill="none" stroke="{color}" stroke-width="2"/>'
