"""What the README and the page about benchmarks say of ``make bench``, written from its records."""

import re
import statistics
import textwrap
from pathlib import Path

from harness.figures import peak_heap_mb, warm
from harness.runs import Of, Runs, Value, spread, wall
from harness.scenario import Scenario
from harness.sides import FLOOR_OUR_FILES, SPARK_OUR_FILES

ROOT = Path(__file__).resolve().parents[2]
PLACE = re.compile(r"<!-- make bench -->\n.*?<!-- end -->", re.DOTALL)
JOIN, HEAP = "steady-w2-left", "steady-heap-w2-left"
SPARK, SPARK_EQUAL, OURS = "spark-default", SPARK_OUR_FILES[0], "ours-default"
FILES = ", checkpoint files written by streamjoin"
SIDES = {
    SPARK: "Spark's join, default state store",
    SPARK_EQUAL: f"Spark's join, default state store{FILES}",
    "spark-rocksdb-changelog-our-files": f"Spark's join, RocksDB with changelogs{FILES}",
    "spark-rocksdb-v4-our-files": f"Spark's join, RocksDB, state format 4{FILES}",
    OURS: "streamjoin, default state store",
    "ours-rocksdb": "streamjoin, RocksDB",
    FLOOR_OUR_FILES: f"the same inputs and shuffle without a join{FILES}",
}


def quoted(runs: Runs, known: dict[str, Scenario]) -> dict[Path, str]:
    """Return the pages that quote ``make bench``, with its figures in their place; none if it has not run to its end.

    Args:
        runs: those of the command.
        known: the scenarios.
    """
    needed = [*((JOIN, side) for side in SIDES), (HEAP, OURS), (HEAP, SPARK_EQUAL)]
    if not all(runs.of(*each) and runs.finished(*each) for each in needed):
        return {}
    speed = warm(known[JOIN])
    texts = {ROOT / "README.md": _readme(runs, speed), ROOT / "docs" / "benchmarks.md": _page(runs, speed)}
    return {file: _between(file.read_text(), text) for file, text in texts.items()}


def _between(page: str, text: str) -> str:
    before, after = PLACE.split(page)
    return f"{before}<!-- make bench -->\n{text}<!-- end -->{after}"


def _readme(runs: Runs, speed: Value) -> str:
    """Return the figures in some sentences."""
    (ours, spark), (mine, theirs) = _medians(runs, JOIN, speed), _medians(runs, JOIN, wall)
    heap, more = _medians(runs, HEAP, peak_heap_mb)
    return _wrapped(
        f"Once warm, a left outer join of orders with their deliveries within an hour reads {round(ours, -3):,.0f} "
        f"rows a second with streamjoin and {round(spark, -3):,.0f} with Spark's join, "
        f"{_ratio(runs, OURS, SPARK_EQUAL, speed)} times as many. Four million orders in a new process, whose JVM has "
        f"to compile the code first, take {mine:.0f} seconds instead of {theirs:.0f}. The heap after a garbage "
        f"collection is at most {heap:,.0f} MB instead of {more:,.0f} MB."
    )


def _page(runs: Runs, speed: Value) -> str:
    """Return the table of all sides, and their ratios."""
    lines = ["| | whole run, s | rows a second, warm | peak heap after a collection, MB |", "|---|---:|---:|---:|"]
    for side, words in SIDES.items():
        speeds = [round(each, -3) for each in runs.values(JOIN, side, speed)]
        heap = runs.values(HEAP, side, peak_heap_mb)
        cells = [spread(runs.values(JOIN, side, wall), ".1f"), spread(speeds, ",.0f")]
        lines.append(f"| {' | '.join([words, *cells, spread(heap, ',.0f') if heap else 'not measured'])} |")
    table = "\n".join(lines)
    both = [_ratio(runs, OURS, side, speed) for side in (SPARK, SPARK_EQUAL)]
    whole = [_ratio(runs, side, OURS, wall) for side in (SPARK, SPARK_EQUAL)]
    floor = _ratio(runs, FLOOR_OUR_FILES, OURS, speed, 2)
    return f"\n{table}\n\n" + _wrapped(
        f"Once warm, streamjoin reads {both[0]} times as many rows a second as Spark's join with the default settings "
        f"of each, and {both[1]} times as many if streamjoin writes the checkpoint files of both. A whole run in a "
        f"new process is {whole[0]} and {whole[1]} times as fast. The shuffle alone reads {floor} times as many rows "
        f"a second as streamjoin. The figures are medians of {len(runs.of(JOIN, OURS))} rounds, with the least and the "
        "most, and the ratios are medians of those within each round."
    )


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False) + "\n"


def _ratio(runs: Runs, side: str, base: str, value: Value, decimals: int = 1) -> str:
    return f"{statistics.median(runs.ratios(Of(JOIN, side, value), Of(JOIN, base, value))):.{decimals}f}"


def _medians(runs: Runs, scenario: str, value: Value) -> tuple[float, float]:
    """Return the medians of streamjoin and of Spark's join with the same files."""
    ours, spark = (statistics.median(runs.values(scenario, side, value)) for side in (OURS, SPARK_EQUAL))
    return ours, spark
