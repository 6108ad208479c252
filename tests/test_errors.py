"""Every error has a message, a test that raises it, and a test in which what to write instead runs."""

import json
import re
from pathlib import Path
from typing import Any, get_args

import error_page
from conftest import ROOT

import streamjoin as sj

CONDITIONS: dict[str, Any] = json.loads(error_page.CONDITIONS.read_text(encoding="utf-8"))
CAUSES = {
    f"{name}.{cause}" if cause else name: condition["message"] + (causes[cause]["message"] if cause else [])
    for name, condition in CONDITIONS.items()
    for causes in [condition.get("subClass", {})]
    for cause in causes or [""]
}
NAME = re.compile(r'"(STREAMJOIN_[A-Z_.]+)"')
WRITTEN = re.compile(r"STREAMJOIN_[A-Z_]+(?:\\?\.[A-Z_]+)?")
SCALA = ROOT / "scala" / "spark" / "src"
SOURCES = {file: file.read_text(encoding="utf-8") for file in (SCALA / "main").rglob("*.scala")}
PYTHON = {file: file.read_text(encoding="utf-8") for file in (ROOT / "python" / "src").rglob("*.py")}
TESTS = {
    file: file.read_text(encoding="utf-8")
    for pattern in ("tests/**/*.py", "tests/jobs/*.txt", "tests/cases/**/*", "scala/*/src/test/**/*.scala")
    for file in ROOT.glob(pattern)
    if file.is_file() and file != Path(__file__)
}

# Values added by code that raises several errors, often in another file.
SHARED = {"arrangement", "call", "clause", "column", "example", "file", "reason", "side"}

RUNS = dict(
    line.split(" | ")
    for line in (ROOT / "tests" / "errors.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
)


def names(texts: dict[Path, str]) -> set[str]:
    return {name for text in texts.values() for name in NAME.findall(text)}


def test_the_page_of_errors_is_current() -> None:
    assert error_page.PAGE.read_text(encoding="utf-8") == error_page.page(), "run: python docs/error_page.py"


def test_every_error_has_a_message_and_is_raised() -> None:
    assert names(SOURCES) | names(PYTHON) == set(CAUSES)
    assert names(PYTHON) == set(get_args(sj.Condition))


def test_every_error_says_what_to_do_and_has_a_state() -> None:
    for name, message in CAUSES.items():
        assert re.fullmatch(r"[0-9A-Z]{5}", CONDITIONS[name.partition(".")[0]]["sqlState"]), name
        assert len(message) >= 2, f"{name}: what was found, and what to write instead"


def test_every_value_of_a_message_is_passed() -> None:
    for name, message in CAUSES.items():
        wanted = set(re.findall(r"<(\w+)>", "".join(message)))
        for file, text in (SOURCES | PYTHON).items():
            if f'"{name}"' in text and file.name != "errors.py":
                passed = set(re.findall(r'"(\w+)" ->|\b(\w+)=', text))
                missing = wanted - {each for pair in passed for each in pair} - SHARED
                assert not missing, f"{file.name}: {name} lacks {missing}"


def test_every_error_is_raised_in_a_test() -> None:
    written = {name.replace("\\", "") for text in TESTS.values() for name in WRITTEN.findall(text)}
    assert set(CAUSES) <= written


def test_every_error_has_something_to_write_instead() -> None:
    assert set(CONDITIONS) <= set(RUNS) <= set(CONDITIONS) | set(CAUSES)
    assert [where for where in sorted(set(RUNS.values()) - {"-"}) if not is_test(where)] == []


def is_test(where: str) -> bool:
    stem, _, test = where.partition(": ")
    texts = [text for file, text in TESTS.items() if file.stem == stem]
    # In Scala, a name may begin on the next line, and may be followed by that of a case.
    named = re.compile(rf'test(?:Long)?\(\s*s?"{re.escape(test)}(?:"|: )|def {test}\(')
    return any(not test or named.search(text) for text in texts)
