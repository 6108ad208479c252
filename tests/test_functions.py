"""`functions.json` says what can be called; signatures, docstrings, the calls of Python and the docs match it."""

import ast
import inspect
import json
import re
from typing import Any

import pytest
import signatures
from conftest import ROOT

import streamjoin as sj
from streamjoin._spark.functions import checked, sql_call

TABLE: dict[str, dict[str, Any]] = json.loads(
    (ROOT / "python" / "src" / "streamjoin" / "functions.json").read_text(encoding="utf-8")
)
# The types of the table as Python writes them.
TYPES = {
    "arrangement": "str | Arrangement",
    "arrangements": "Mapping[str, str | Arrangement]",
    "backward, forward or nearest": "Literal['backward', 'forward', 'nearest']",
    "boolean": "bool",
    "builder": "SparkSession.Builder",
    "column": "ColumnOrName",
    "column or now": "ColumnOrName | Now",
    "columns": "ColumnOrName | Sequence[ColumnOrName]",
    "condition": "str | Column",
    "current or previous": "Literal['current', 'previous']",
    "duration": "Duration",
    "frame": "DataFrame",
    "frame or writer": "DataFrame | DataStreamWriter",
    "integer": "int",
    "join type": "JoinType | str",
    "key": "Key",
    "keys": "Key | Sequence[Sequence[ColumnOrName]]",
    "nothing": "None",
    "on": "On",
    "path": "str | Path",
    "query": "StreamingQuery",
    "query or checkpoint": "StreamingQuery | str",
    "query or path": "StreamingQuery | str | Path",
    "reader": "str | Reader",
    "seconds": "float",
    "session": "SparkSession",
    "stream join type": "StreamJoinType | str",
    "target": "str | Mapping[str, object]",
    "text": "str",
    "text or nothing": "Literal['text']",
    "version or caught up": "int | Literal['caught up']",
    "versions": "VersionedStream | DataFrame",
    "within": "Within",
}
RESULTS = {"arrangement": "Arrangement", "path": "Path", "versions": "VersionedStream", "watch": "Watch"}
RESULTS |= {"writer": "DataStreamWriter"}
OF_PYTHON = {function["python"]: function for function in TABLE.values() if "python" in function}
EXPORTED = {name.removeprefix("sj.") for name in OF_PYTHON if name.startswith("sj.")}


def parameter(declared: dict[str, Any]) -> str:
    optional = declared.get("null") or declared.get("default", ...) is None
    text = f"{declared['name']}: {TYPES[declared['type']]}{' | None' if optional else ''}"
    return f"{text}={declared['default']!r}" if "default" in declared else text


def signature(name: str, function: dict[str, Any]) -> str:
    home, _, own = name.rpartition(".")
    declared = function.get("parameters", [])
    parts = [] if home == "sj" else ["self"]
    parts += [parameter(each) for each in declared if not each.get("keyword")]
    keywords = [parameter(each) for each in declared if each.get("keyword")]
    parts += ["*", *keywords] if keywords else []
    result = RESULTS.get(function["result"], TYPES.get(function["result"]))
    return f"{own}({', '.join(parts)}) -> {result}"


def test_python_has_the_functions_of_the_table_with_their_parameters() -> None:
    lines = signatures.FILE.read_text(encoding="utf-8").splitlines()
    found = {line for line in lines if re.match(r"[a-z_]+\(", line)}
    assert found == {signature(name, it) for name, it in OF_PYTHON.items() if name.startswith("sj.")}
    start = lines.index("class Arrangement") + 1
    methods = {line.strip() for line in lines[start:] if line.startswith("    ")}
    assert {signature(name, it) for name, it in OF_PYTHON.items() if not name.startswith("sj.")} <= methods


@pytest.mark.parametrize("name", sorted(OF_PYTHON))
def test_a_docstring_names_the_errors_of_the_table(name: str) -> None:
    home, _, own = name.rpartition(".")
    doc = inspect.getdoc(getattr(sj if home == "sj" else getattr(sj, home), own)) or ""
    raises = doc.partition("Raises:\n")[2].partition("\n\n")[0]
    assert set(re.findall(r"STREAMJOIN_[A-Z_]*[A-Z]", raises)) == set(OF_PYTHON[name].get("errors", []))


def calls(*forms: str) -> dict[str, dict[str, Any]]:
    found = [call for function in TABLE.values() for call in function.get("calls", ()) if call["form"] in forms]
    assert len(found) == len({call["name"] for call in found})
    return {call["name"]: call for call in found}


def test_the_functions_that_python_sends_are_those_of_the_table() -> None:
    sent = set()
    for file in (ROOT / "python" / "src" / "streamjoin").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                texts = [each.value for each in node.args if isinstance(each, ast.Constant)]
                sent |= {text for text in texts if isinstance(text, str) and re.fullmatch("sj_[a-z_]+", text)}
    of_scala = {"sj_sorted"}
    of_sql = {"IMPOSE_ORDER", "VERSIONS"}
    assert sent == {*calls("frame"), *calls("table", "command")} - of_scala - of_sql


def test_a_call_has_the_arguments_of_the_table() -> None:
    assert sql_call("sj_why", "it's", "id = 42", 3) == "sj_why(X'69742773', 'id = 42', 3)"
    assert sql_call("sj_late_rows", "joined", True) == "sj_late_rows('joined', true)"
    with pytest.raises(sj.StreamJoinError, match="takes True or False as streaming, not 'yes'"):
        sql_call("sj_late_rows", "joined", "yes")
    with pytest.raises(AssertionError, match="sj_idle_after has no argument later, but after"):
        checked("sj_idle_after", {"later": "1s"}, on_frame=True)
    with pytest.raises(AssertionError, match="sj_idle_after needs after"):
        checked("sj_idle_after", {}, on_frame=True)


REFERENCE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return REFERENCE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_the_reference_lists_the_functions_of_python_with_their_parameters() -> None:
    rows = dict(re.findall(r"^\| `sj\.([a-z_]+)(\(.*)$", section("Python"), re.MULTILINE))
    assert set(rows) == EXPORTED
    for name, row in rows.items():
        named = re.findall(r"[a-z_]+", re.sub(r"=[^,)]*", "", row[1:].partition(")")[0]))
        known = [each["name"] for each in OF_PYTHON[f"sj.{name}"]["parameters"]]
        assert set(named) <= set(known), f"{name} has {known}"
        missing = [each for each in known if not re.search(rf"\b{each}\b", row) and each != "spark"]
        assert not missing, f"the row of {name} does not mention {missing}"


def test_the_reference_lists_the_functions_of_sql() -> None:
    found = set(re.findall(r"\b(sj_[a-z_]+|IMPOSE_ORDER|VERSIONS)\(", section("SQL")))
    in_words = set(re.findall(r"`(sj_[a-z_]+)`", section("SQL")))
    tables = {name for name, call in calls("table", "command").items() if not call.get("internal")}
    frames = set(calls("frame"))
    assert found | in_words >= tables
    assert found | in_words <= tables | frames
    page = (ROOT / "docs" / "sql.md").read_text(encoding="utf-8")
    assert {name for name in tables if name not in page} == set()


def test_the_api_page_lists_the_functions_of_python() -> None:
    page = (ROOT / "docs" / "api.rst").read_text(encoding="utf-8")
    assert set(re.findall(r"autofunction:: (\w+)", page)) == EXPORTED
