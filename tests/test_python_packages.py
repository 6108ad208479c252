"""Python's modules import each other in one direction only; `docs/architecture.md` describes them.

An import within a function or below `TYPE_CHECKING` counts like any other: it loads something later or not at all, but
one module still depends on the other.
"""

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

import pytest
from conftest import ROOT

PACKAGE = "streamjoin"
SOURCES = ROOT / "python" / "src" / PACKAGE

INTERNAL = "errors _resources _packaging _display _spark _arguments"
# Each module or folder of the package, and those that it may import.
MAY_IMPORT = {
    "_resources": "",
    "errors": "_resources",
    "_packaging": "errors",
    "_display": "",
    "_spark": "errors _resources _packaging",
    "_arguments": "errors _spark",
    "session": INTERNAL,
    "streams": INTERNAL,
    "inspection": INTERNAL,
    "arrangements": INTERNAL,
    "upserts": INTERNAL,
    "joins": f"{INTERNAL} arrangements",
    "monitoring": INTERNAL,
    "__main__": "errors _packaging monitoring",
    "__init__": f"{INTERNAL} session streams inspection arrangements upserts joins monitoring",
}


def imported(source: str) -> Iterator[str]:
    """Yield what a module imports from the package, wherever the import is: `streamjoin._spark.calls.ask`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == PACKAGE)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports of the package are absolute"
            if (node.module or "").split(".")[0] == PACKAGE:
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def sources() -> dict[str, str]:
    """Return the text of each module by its name; a stub stands for its `__init__.py`, which loads what it lists."""
    found = sorted([*SOURCES.rglob("*.py"), *SOURCES.rglob("*.pyi")])
    return {".".join(file.relative_to(SOURCES).with_suffix("").parts): file.read_text("utf-8") for file in found}


def graph(texts: Mapping[str, str]) -> dict[str, set[str]]:
    """Return the modules of the package that each of them imports."""

    def module(name: str) -> str:
        """Return the module that has a name, which may be the module itself."""
        name = name.removeprefix(PACKAGE).lstrip(".")
        parent = name.rpartition(".")[0]
        places = (name, f"{name}.__init__", parent, f"{parent}.__init__".lstrip("."))
        return next(place for place in places if place in texts)

    return {user: {module(name) for name in imported(text)} for user, text in texts.items()}


def folder_of(module: str) -> str:
    return module.split(".")[0]


def wrong(texts: Mapping[str, str]) -> list[str]:
    """Return the imports that the table does not have."""
    return [
        f"{user} imports {other}"
        for user, others in graph(texts).items()
        for other in sorted(others)
        if folder_of(other) not in (folder_of(user), *MAY_IMPORT[folder_of(user)].split())
    ]


def test_the_table_has_what_is_there() -> None:
    assert set(MAY_IMPORT) == {folder_of(module) for module in sources()}


def test_imports_are_in_one_direction() -> None:
    assert wrong(sources()) == []


def test_no_modules_import_each_other() -> None:
    TopologicalSorter(graph(sources())).prepare()


ASK = "from streamjoin._spark.calls import ask"


@pytest.mark.parametrize(
    ("module", "source", "found"),
    [
        ("errors", ASK, "_spark.calls"),
        ("errors", "import streamjoin._spark.calls as calls", "_spark.calls"),
        ("_packaging.jars", "from streamjoin._spark import calls", "_spark.calls"),
        ("_packaging.jars", f"def later() -> None:\n    {ASK}", "_spark.calls"),
        ("_display.formats", f"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    {ASK}", "_spark.calls"),
        ("_spark.calls", "from streamjoin._arguments.checks import expect", "_arguments.checks"),
        ("_spark.calls", "import streamjoin", "__init__"),
        ("arrangements", "from streamjoin.joins import delta", "joins.delta"),
        ("joins.temporal", "from streamjoin.monitoring import report", "monitoring.__init__"),
    ],
)
def test_an_import_in_the_wrong_direction_is_detected(module: str, source: str, found: str) -> None:
    assert wrong(sources() | {module: source}) == [f"{module} imports {found}"]


def test_modules_that_import_each_other_are_detected() -> None:
    """Within a folder, where the table allows any import."""
    with pytest.raises(CycleError, match=r"_spark\.checks"):
        TopologicalSorter(graph(sources() | {"_spark.driver": "import streamjoin._spark.checks"})).prepare()
