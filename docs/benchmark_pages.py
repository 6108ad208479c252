"""The list of benchmark results for the site, read from the results themselves when the site is built."""

import re
from pathlib import Path

RESULTS = Path(__file__).resolve().parent.parent / "benchmarks" / "results"
MARKER = "<!-- the list of results -->"

# Results of runs at another size or of some sides are not in git.
PART = re.compile(r"-x(sides|[0-9.]+)$")
GOAL = re.compile(r"^\|.*\|\s*(yes|\*\*no\*\*|not measured)\s*\|$", re.MULTILINE)
DATE = re.compile(r"\d{4}-\d\d-\d\d")


def pages(results: Path = RESULTS) -> list[Path]:
    """Return the files that become pages, in the order of their names."""
    return [file for file in sorted(results.glob("*.md")) if not PART.search(file.stem)]


def row(file: Path) -> str:
    """Return the line of a file in the list: its section titles, newest date and how many of its goals are met."""
    text = file.read_text(encoding="utf-8")
    title = re.search(r"^# (.*)$", text, re.MULTILINE)
    assert title, f"{file} has no title"
    goals = GOAL.findall(text)
    met = f"{goals.count('yes')} of {len(goals)}" if goals else ""
    if unknown := goals.count("not measured"):
        met += f", {unknown} not measured"
    dates = DATE.findall(text)
    sections = len(re.findall(r"^## ", text, re.MULTILINE))
    newest = max(dates) if dates else ""
    return f"| [{file.name}](../benchmarks/results/{file.name}) | {title[1]} | {sections} | {newest} | {met} |"


def overview(results: Path = RESULTS) -> str:
    """Return the list as a Markdown table."""
    head = ["| results | what | tables | newest run | goals met |", "|---|---|---|---|---|"]
    return "\n".join([*head, *map(row, pages(results))])
