"""`figures.json` has every figure that users see: the docs are made from it, and the code measures what it defines.

What a driver reports is compared with it in `ExplainSuite` and `FiguresSourceSuite`.
"""

import re

import figure_tables
from conftest import ROOT
from figure_tables import DEFINED

FILES = (ROOT / "scala" / "spark" / "src" / "main").rglob("*.scala")
SOURCES = "\n".join(file.read_text(encoding="utf-8") for file in FILES if file.name != "Figures.scala")
ALL = [(name, figure) for section in DEFINED.values() for name, figure in section.items()]
# What Spark's own stateful operators measure, too.
OF_SPARK = {"numOutputRows", "numTotalStateRows", "numUpdatedStateRows", "numRemovedStateRows", "stateMemory"}
OF_SPARK |= {"numRowsDroppedByWatermark", "numStateStoreInstances", "allUpdatesTimeMs", "allRemovalsTimeMs"}
OF_SPARK |= {"commitTimeMs"}


def test_the_docs_have_what_is_defined() -> None:
    for file, text in figure_tables.written().items():
        assert text == file.read_text(encoding="utf-8"), f"{file.name}: make format"
    tables = re.findall(r"<!-- figures: (\w+) -->", (ROOT / "docs" / "reference.md").read_text(encoding="utf-8"))
    assert sorted([*tables, "metrics"]) == sorted(DEFINED)


def test_each_figure_is_defined_in_known_words() -> None:
    kinds = set(re.findall(r'val name: String = "(\w+)"', SOURCES)) | {"query", "operator", "column", "arrangement"}
    units = {"rows", "keys", "values", "changes", "batches", "versions", "bytes", "ms"}
    words = {"unit": units | {"number", "version", "0 or 1", "ms since 1970"}, "span": {"batch", "now", "total"}}
    words |= {"measured": {"task", "driver"}, "per": {"side", "input", "column", "change"}}
    for name, figure in ALL:
        assert {"unit", "span", "measured", "meaning"} <= figure.keys() <= {*words, "of", "json", "meaning", "details"}
        assert all(figure[key] in known for key, known in words.items() if key in figure), name
        assert set(figure.get("of", [])) <= kinds, name
        assert all(re.fullmatch(r"(operators|inputs)\.\w+", path) for path in figure.get("json", [])), name


def test_the_code_measures_what_is_defined_and_nothing_else() -> None:
    assert [name for name, _ in ALL if not re.search(rf'"{name}[".]', SOURCES)] == []
    measured = set(re.findall(r'\b(?:[mM]etrics|longMetric|figures|counts)(?:\.bySide)?\("(\w+)"\)', SOURCES))
    measured |= set(re.findall(r'\bcustomMetrics\.(?:put|get)\("(\w+)"', SOURCES))
    assert len(measured) > 30
    assert measured - OF_SPARK - {name for name, _ in ALL} == set()
    read = set(re.findall(r'\bsum\([\w.()]+, "(\w+)"\)', SOURCES))
    names = [figure_tables.progress_names(name, figure) for name, figure in DEFINED["operator"].items()]
    assert read and read <= set().union(*names)
