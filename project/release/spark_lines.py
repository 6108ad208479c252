"""The supported Spark lines, from `project/spark-lines`. The build reads the same file."""

from pathlib import Path
from typing import NamedTuple


class SparkLine(NamedTuple):
    """A line, its tested version, and the version of Spark Connect's pure client that is tested with it."""

    name: str
    version: str
    client: str
    is_default: bool


def spark_lines() -> list[SparkLine]:
    """Return the lines, the oldest first."""
    text = (Path(__file__).resolve().parents[1] / "spark-lines").read_text()
    rows = [row.split() for row in text.splitlines() if not row.startswith("#")]
    return [SparkLine(name, version, client, default == ["default"]) for name, version, _, client, *default in rows]
