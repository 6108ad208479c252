"""The locks of the downloads: they match the requirements of the project, and every file has its hash."""

import re
import tomllib
from pathlib import Path

import jars
import pytest
from conftest import LINES, ROOT
from packaging.requirements import Requirement

LOCKS = ROOT / "project" / "locks"
PYTHON = sorted(file.name for file in LOCKS.glob("*.txt"))


def locked(file: Path) -> dict[str, set[str]]:
    """Return the versions of each package: more than one where systems differ."""
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^ ;\\]+)", file.read_text(), re.MULTILINE):
        found.setdefault(name, set()).add(version)
    return found


def asked(extra: str) -> list[Requirement]:
    project = tomllib.loads((ROOT / "python" / "pyproject.toml").read_text())["project"]
    found = [Requirement(text) for text in project["optional-dependencies"][extra]]
    nested = [each for each in found if each.name == "streamjoin"]
    return [each for each in found if each.name != "streamjoin"] + [
        inner for each in nested for name in each.extras for inner in asked(name)
    ]


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("file", PYTHON)
def test_a_lock_has_what_is_asked_for(file: str) -> None:
    extras = {"dev": ["dev", "spark"], "client": ["connect"]}.get(file.removesuffix(".txt").split("-")[0], [])
    versions = locked(LOCKS / file)
    for requirement in [each for extra in extras for each in asked(extra)]:
        found = versions.get(canonical(requirement.name), set())
        assert found and all(requirement.specifier.contains(version) for version in found), (
            f"`make locks`: {requirement}"
        )


@pytest.mark.parametrize("file", PYTHON)
def test_a_lock_has_a_hash_for_each_package(file: str) -> None:
    text = (LOCKS / file).read_text()
    entries = re.split(r"\n(?=\S)", text.strip())
    assert len(entries) == len(re.findall(r"^\S+==", text, re.MULTILINE))
    assert all("--hash=sha256:" in entry for entry in entries)


def test_the_lines_of_spark_have_the_versions_of_their_locks() -> None:
    for line in LINES.values():
        spark = "dev" if line.is_default else f"spark-{line.name}"
        assert locked(LOCKS / f"{spark}.txt")["pyspark"] == {line.version}
        assert locked(LOCKS / f"client-{line.name}.txt")["pyspark-client"] == {line.client}


def test_a_jar_that_is_not_locked_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "org/example/a/1.0/a-1.0.jar"
    jar = tmp_path / ".tools" / "coursier" / "cache" / "https" / "host" / "maven2" / name
    jar.parent.mkdir(parents=True)
    jar.write_bytes(b"first")
    lock = tmp_path / "lock"
    lock.touch()
    monkeypatch.setattr(jars, "ROOT", tmp_path)
    monkeypatch.setattr(jars, "LOCK", lock)
    with pytest.raises(SystemExit, match=r"Not in .*`make locks`(?s:.)*org/example/a/1\.0/a-1\.0\.jar"):
        jars.check()
    jars.write()
    jars.check()
    jar.write_bytes(b"second")
    with pytest.raises(SystemExit, match=r"are not those of(?s:.)*org/example/a/1\.0/a-1\.0\.jar"):
        jars.check()
    # An artifact that was not fetched stays in the lock; an old version of one that was does not.
    lock.write_text(f"00  {name}\n11  org/example/b/1.0/b-1.0.jar\n22  org/example/a/0.9/a-0.9.jar\n")
    jars.write()
    assert set(jars.locked()) == {name, "org/example/b/1.0/b-1.0.jar"}
    jars.check()
