"""From a symptom to its cause: each of ``examples/symptoms.py`` shows in a hint of ``sj.explain_analyze``."""

import json
from pathlib import Path

import jsonschema
import pytest
from conftest import LONG, ROOT
from pyspark.sql import SparkSession

# At the end of the path: the tests have a module shop too.
from symptoms import SYMPTOMS, Shop

import streamjoin as sj

# By symptom: the line of the plan, and words of its hint.
SAID = {
    "stalled-input": ("right: deliveries", "rows wait for its watermark"),
    "hot-key": ("left: orders", "One key has "),
    "far-future-row": ("left: orders", "The newest orders.t is 2999-01-01T00:00:00Z"),
    "wide-bound": ("1 inner interval join", "99.9 % of the matches are within 3 minutes, and rows are kept for 1 day"),
    "no-memory": ("1 inner interval join", "segments do not fit into memory"),
    "dead-reader": ("arrangement orders", "has been absent for 3 hours"),
}


FIGURES = jsonschema.Draft202012Validator(
    json.loads((ROOT / "docs" / "figures.schema.json").read_text(encoding="utf-8"))
)


@pytest.mark.parametrize("name", SYMPTOMS)
def test_a_symptom_is_named(spark: SparkSession, tmp_path: Path, name: str) -> None:
    if name == "stalled-input" and not LONG:
        pytest.skip("it is silent for a minute: make test-long")
    for query in SYMPTOMS[name](Shop(spark, tmp_path)):
        hints = [(row.plan.strip(), hint) for row in sj.explain_analyze(query).collect() for hint in row.hints]
        figures = spark.sql(f"SELECT figures FROM sj_figures('{query.id}')").collect()
        assert [error.message for row in figures for error in FIGURES.iter_errors(json.loads(row.figures))] == []
        if name == "hot-key":
            assert any('"hotKeys":[{"share":0.' in row.figures for row in figures), figures[-1]
    line, words = SAID[name]
    assert any(plan == line and words in hint for plan, hint in hints), hints
