"""`make` says which tools of the machine are missing or too old, one line each, before it builds or installs."""

import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT

# What the Makefile itself uses.
BASICS = [*("sh", "make", "awk", "cat", "find", "grep", "sed"), *("head", "dirname", "readlink", "git", "mkdir")]
BASICS += ["touch", "rm"]

JAVA = "echo 'openjdk version \"{0}\" 2025-04-15' >&2"
# Of Python, what the check asks: the version, and whether it is new enough and has venv.
PYTHON = (
    'case "$1" in --version) echo Python {0};; -c) case "$2" in *version_info*) exit {1};; *) exit {2};; esac;; esac'
)
GOOD: dict[str, str | None] = {
    "java": JAVA.format("17.0.15"),
    "javac": "",
    "mvn": "echo mvn ran; exit 1",
    "python3.11": PYTHON.format("3.11.7", 0, 0),
}
PYTHONS: dict[str, str | None] = dict.fromkeys(["python3.11", "python3.12", "python3.13"], "exit 127")

CASES: dict[str, tuple[dict[str, str | None], list[str]]] = {
    "no java": ({"java": None, "javac": None}, ["java is missing: install a JDK 17 or newer"]),
    "java 11": ({"java": JAVA.format("11.0.2")}, ["bin/java is version 11, and a JDK 17 or newer is needed"]),
    "java 8": ({"java": JAVA.format("1.8.0_292")}, ["bin/java is version 8, and a JDK 17 or newer is needed"]),
    "no compiler": ({"javac": None}, ["bin/java has no compiler (javac): install a JDK 17 or newer"]),
    "no mvn": ({"mvn": None}, ["mvn is missing: install Maven"]),
    "no python": (PYTHONS, ["python3 is missing: install Python 3.11 or newer"]),
    "old python": (
        PYTHONS | {"python3": PYTHON.format("3.9.2", 1, 0)},
        ["python3 is Python 3.9.2, and Python 3.11 or newer is needed: make PYTHON=/path/to/python3.12."],
    ),
    "no venv": ({"python3.11": PYTHON.format("3.11.7", 0, 1)}, ["python3.11 cannot make environments"]),
    "nothing": (
        PYTHONS | {"java": None, "javac": None, "mvn": None},
        ["java is missing", "mvn is missing", "python3 is missing"],
    ),
}


def make(folder: Path, tools: dict[str, str | None], **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `make demo` in a fresh clone, with these programs alone in PATH."""
    programs = folder / "bin"
    programs.mkdir()
    for name in BASICS:
        (programs / name).symlink_to(str(shutil.which(name)))
    for name, text in tools.items():
        if text is not None:
            (programs / name).write_text(f"#!/bin/sh\n{text}\n")
            (programs / name).chmod(0o755)
    for name in ("Makefile", "VERSION", "LICENSE", "build.sbt"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "project", folder / "project", ignore=shutil.ignore_patterns("target", "project"))
    for name in ("scala/core/src/main", "python/src/streamjoin"):
        (folder / name).mkdir(parents=True)
    for name in ("error-conditions.json", "figures.json", "functions.json"):
        (folder / "python" / "src" / "streamjoin" / name).touch()
    return subprocess.run(
        ["make", "demo"],
        cwd=folder,
        env={"PATH": str(programs)} | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("case", CASES)
def test_a_line_for_each_tool(case: str, tmp_path: Path) -> None:
    tools, expected = CASES[case]
    done = make(tmp_path, GOOD | tools)
    lines = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert done.returncode == 2
    assert len(lines) == len(expected), done.stderr
    assert [line for line, text in zip(lines, expected, strict=True) if text not in line] == []
    assert "mvn ran" not in done.stdout, "nothing is fetched"


def test_java_home_counts_too(tmp_path: Path) -> None:
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(f"#!/bin/sh\n{JAVA.format('11.0.2')}\n")
    (home / "bin" / "java").chmod(0o755)
    done = make(tmp_path, GOOD, JAVA_HOME=str(home))
    assert f"JAVA_HOME={home} is version 11, and a JDK 17 or newer is needed: change or unset it." in done.stderr


def test_with_all_tools_it_begins(tmp_path: Path) -> None:
    done = make(tmp_path, GOOD)
    assert "mvn ran" in done.stdout
    assert "missing" not in done.stderr and "needed" not in done.stderr
