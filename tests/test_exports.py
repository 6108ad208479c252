"""What the package exports: one list, which type checkers read too, and PySpark is loaded only when it is needed."""

import ast
import warnings
from collections import Counter
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import signatures
from conftest import ROOT, Run

import streamjoin as sj
from streamjoin._packaging.jars import jar_path

PACKAGE = ROOT / "python" / "src" / "streamjoin"
EXPORTS: list[str] = vars(sj)["__all__"]


def test_each_export_is_listed_once() -> None:
    listed: Counter[str] = Counter()
    for line in ast.parse((PACKAGE / "__init__.pyi").read_text(encoding="utf-8")).body:
        assert isinstance(line, ast.ImportFrom)
        for alias in line.names:
            assert alias.name == alias.asname, "type checkers take it for an export only if it is named again"
            listed[alias.name] += 1
    assert listed == Counter(EXPORTS)
    code = (PACKAGE / "__init__.py").read_text(encoding="utf-8").rpartition('"""')[2]
    assert not [name for name in EXPORTS if name in code.split()]


def test_public_modules_have_what_their_names_say() -> None:
    public = {file.stem for file in PACKAGE.iterdir() if not file.stem.startswith("_") and file.suffix in ("", ".py")}
    shown = {"inspection", "monitoring"}
    assert public - {"jars", "py"} == {"arrangements", "errors", "joins", "session", "streams", "upserts"} | shown
    for name in EXPORTS:
        home = getattr(getattr(sj, name), "__module__", "")
        if home.startswith("streamjoin."):
            assert not home.removeprefix("streamjoin.").startswith("_"), f"{name} stands in {home}"


def test_no_module_is_too_long() -> None:
    lengths = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in PACKAGE.rglob("*.py")}
    assert {file.name: length for file, length in lengths.items() if length > 400} == {}


def test_pyspark_is_loaded_when_it_is_needed(python: Run, tmp_path: Path) -> None:
    out = python(
        "import sys\nimport streamjoin as sj\n"
        "print(sorted(name for name in ('pyspark', 'py4j') if name in sys.modules), 'join' in dir(sj))\n"
        "from streamjoin import *\n"
        "print(join is sj.join, 'pyspark' in sys.modules)\n"
        "from streamjoin.joins import join as found, NOW as now\n"
        "print(found is join, now is NOW)\n"
        "try:\n    sj.jion\nexcept AttributeError as error:\n    print(error)\n"
    )
    assert out.splitlines() == ["[] True", "True True", "True True", "module 'streamjoin' has no attribute 'jion'"]


def test_a_package_in_a_zip_file(python: Run, tmp_path: Path) -> None:
    """As `spark-submit --py-files` sends it: the jar has to come by `--jars`."""
    archive = tmp_path / "streamjoin.zip"
    with ZipFile(archive, "w") as zipped:
        for file in PACKAGE.rglob("*"):
            if file.suffix in (".py", ".pyi", ".json", ".html"):
                zipped.write(file, file.relative_to(PACKAGE.parent))
    out = python(
        "import os\nimport streamjoin as sj\nfrom pyspark.sql import SparkSession\n"
        "try:\n    sj.configure(SparkSession.builder)\n"
        "except sj.StreamJoinError as error:\n    print(error.getCondition())\n"
        f"os.environ['PYSPARK_SUBMIT_ARGS'] = '--jars {jar_path()} pyspark-shell'\n"
        "print(list(sj.configure(SparkSession.builder)._options))\n"
        "from streamjoin._spark.functions import sql_call\nprint(sql_call('sj_version'))\n"
        "from streamjoin.monitoring._report_page import render_page\nprint(sj.__file__)\n",
        PYTHONPATH=str(archive),
    )
    expected = ["STREAMJOIN_JAR_MISSING.PACKAGE", "['spark.sql.extensions']", "sj_version()"]
    assert out.splitlines() == [*expected, f"{archive}/streamjoin/__init__.py"]


@pytest.mark.parametrize(
    ("function", "wrong"),
    [("report", {"path": None}), ("watch", {"interval": 0}), ("state", {"operator": "1"}), ("why", {"condition": 1})],
)
def test_an_argument_with_its_former_name(function: str, wrong: dict[str, Any]) -> None:
    """It is accepted with a warning; the error of another argument shows that the call continued."""
    call = getattr(sj, function)
    wanted = rf"Write sj\.{function}\(query=\.\.\.\): the argument of= was renamed to query=\."
    with pytest.warns(DeprecationWarning, match=wanted) as warned, pytest.raises(sj.StreamJoinError):
        call(of="checkpoint", **wrong)
    assert warned[0].filename == __file__, "the line of the caller"
    with pytest.raises(TypeError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call("checkpoint", of="checkpoint", **wrong)


def test_the_signatures_are_those_that_were_promised() -> None:
    """If a change is intended: ``make signatures``, and a line in CHANGELOG.md."""
    assert signatures.lines() == signatures.FILE.read_text().splitlines()
