"""What is published, and the workflows that do it: names in one place, pinned actions, targets that exist.

`make release try-release` builds and rehearses it; here its checks run on broken parts.
"""

import hashlib
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import rehearse
import yaml
from conftest import LINES, ROOT
from packaging.requirements import Requirement
from packaging.version import Version
from publisher import PUBLISHER

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "python" / "pyproject.toml").read_text())["project"]


def tracked() -> dict[str, str]:
    """Return the texts of the repository."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = {}
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file() and not name.startswith("tests/golden/"):
            found[name] = (ROOT / name).read_text(encoding="utf-8", errors="ignore")
    return found


TEXTS = tracked() if (ROOT / ".git").exists() else {}


def workflow(name: str) -> dict[Any, Any]:
    text = (ROOT / ".github" / "workflows" / f"{name}.yml").read_text()
    found: dict[Any, Any] = yaml.safe_load(text)
    return found


def steps(name: str) -> list[dict[str, Any]]:
    return [step for job in workflow(name)["jobs"].values() for step in job["steps"]]


def test_the_publisher_is_the_same_everywhere() -> None:
    """After a change of `project/publisher`, this lists the texts to update."""
    name = re.escape("streamjoin")
    patterns = {
        rf"\b(io\.github\.[\w-]+):{name}": PUBLISHER["group"],
        rf"\b(https://github\.com/[\w-]+/{name})\b": PUBLISHER["source"],
        rf"\b(https://[\w-]+\.github\.io/{name}/)": PUBLISHER["documentation"],
    }
    others = [
        f"{file}: {found}"
        for file, text in TEXTS.items()
        for pattern, value in patterns.items()
        for found in re.findall(pattern, text)
        if found != value
    ]
    assert others == []
    assert PUBLISHER["organization"] in PUBLISHER["source"]
    # Code that can read the names does so.
    code = [file for file in TEXTS if file.endswith((".sbt", ".scala", ".xml", "Makefile"))]
    code += [file for file in TEXTS if file.startswith("project/") and file.endswith(".py")]
    spelled = [file for file in code if any(value in TEXTS[file] for value in PUBLISHER.values() if "." in value)]
    assert len(code) > 300
    assert spelled == []


def test_the_urls_of_the_python_package() -> None:
    assert set(PROJECT["urls"]) == {"Documentation", "Changelog", "Issues", "Source"}
    assert PROJECT["urls"]["Source"] == PUBLISHER["source"]
    assert PROJECT["urls"]["Documentation"] == PUBLISHER["documentation"]
    assert all(url.startswith(PUBLISHER["source"]) for name, url in PROJECT["urls"].items() if name != "Documentation")
    page = (ROOT / "python" / "README.md").read_text()
    assert [url for url in re.findall(r"\]\((http[^)]+)\)", page) if url not in PROJECT["urls"].values()] == []
    assert re.findall(r"\]\((?!http)[^)]+\)", page) == [], "PyPI has no files for relative links"


def test_the_bound_of_pyspark_is_the_line_after_the_last() -> None:
    first, last = (Version(version) for version in (min(LINES), max(LINES)))
    for extra in ("spark", "connect"):
        (needed,) = (Requirement(text) for text in PROJECT["optional-dependencies"][extra])
        assert str(needed.specifier) == f"<{last.major}.{last.minor + 1},>={first}.0"


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_workflow(file: Path) -> None:
    text = file.read_text()
    parsed = yaml.safe_load(text)
    assert parsed["name"] and parsed["jobs"]
    # `on` is a boolean for YAML 1.1.
    assert parsed[True]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = {name for line in re.findall(r"\bmake ([a-z -]+)", text) for name in line.split()}
    assert called - targets == set()
    assert len(called) >= 4
    for job in parsed["jobs"].values():
        assert job["runs-on"] == "ubuntu-24.04"
        assert job["timeout-minutes"] <= 120
    for uses in re.findall(r"uses: (.*)", text):
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", uses), f"pin a commit: {uses}"


def test_one_action_has_one_commit() -> None:
    pins = {line for file in WORKFLOWS for line in re.findall(r"uses: (.*)", file.read_text())}
    assert len({pin.split("@")[0] for pin in pins}) == len(pins)


def test_no_host_of_a_registry_is_named() -> None:
    """The tools know them, so that a mirror can replace each."""
    host = re.compile(r"repo1?\.maven\.org|central\.sonatype|(?:test\.|upload\.|files\.)pypi|pypi\.org|pythonhosted")
    locks = "project/locks/"
    assert [file for file, text in TEXTS.items() if host.search(text) and not file.startswith((locks, "tests/"))] == []


def test_the_matrix_of_ci() -> None:
    rows = workflow("ci")["jobs"]["versions"]["strategy"]["matrix"]["include"]
    default = next(line.name for line in LINES.values() if line.is_default)
    pythons = {"3.11"} | {row["python"] for row in rows}
    assert {default} | {row["spark"] for row in rows} == set(LINES)
    assert {row["java"] for row in rows} == {"17", "21", "25"}
    assert {f"Programming Language :: Python :: {each}" for each in pythons} | {
        "Programming Language :: Python :: 3"
    } == {each for each in PROJECT["classifiers"] if each.startswith("Programming Language :: Python")}
    page = (ROOT / "docs" / "compatibility.md").read_text()
    for row in rows:
        assert f"| {row['spark']} | {row['python']} | {row['java']} |" in page


def test_a_release_is_by_tag_with_the_rights_of_each_job_and_no_more() -> None:
    release = workflow("release")
    assert release[True] == {"push": {"tags": ["v*"]}}
    assert release["permissions"] == {}
    jobs = release["jobs"]
    assert {name for name, job in jobs.items() if "id-token" in job["permissions"]} == {"pypi", "github", "docs"}
    assert [name for name, job in jobs.items() if "secrets." in str(job)] == ["maven"]
    assert {name: job.get("environment") for name, job in jobs.items() if "environment" in job} == {
        "maven": "maven-central",
        "pypi": "pypi",
        "docs": "github-pages",
    }
    # Nothing is published before all of it was built and tried. A release on PyPI cannot be
    # undone either, so it is second.
    assert [job.get("needs") for job in jobs.values()] == [None, "build", "maven", "pypi", "pypi"]
    tried = [step["run"] for step in jobs["build"]["steps"] if step.get("run", "").startswith("make")]
    assert tried == ["make release", "make docs", "make try-release"]
    uploads = [step["with"] for step in steps("release") if "gh-action-pypi-publish" in step.get("uses", "")]
    assert uploads == [{"attestations": True, "print-hash": True}]


def test_ci_only_reads() -> None:
    assert workflow("ci")["permissions"] == {"contents": "read"}
    assert "secrets." not in str(workflow("ci"))


def fake_repository(folder: Path) -> Path:
    """Write a complete Maven repository with small files."""
    for line in LINES:
        name = f"streamjoin-spark{line}_2.13"
        place = folder.joinpath(*PUBLISHER["group"].split("."), name, rehearse.VERSION)
        place.mkdir(parents=True)
        for kind in rehearse.KINDS:
            file = place / f"{name}-{rehearse.VERSION}{kind}"
            values = {each: PUBLISHER["group"] if each == "groupId" else "x" for each in rehearse.REQUIRED}
            fields = "".join(f"<{each}>{value}</{each}>" for each, value in values.items())
            text = f'<project xmlns="http://maven.apache.org/POM/4.0.0">{fields}</project>' if kind == ".pom" else kind
            file.write_text(text)
            for sums in ("md5", "sha1"):
                Path(f"{file}.{sums}").write_text(hashlib.new(sums, text.encode()).hexdigest())
            Path(f"{file}.asc").touch()
    return folder


def test_the_rehearsal_finds_what_maven_central_would_reject(tmp_path: Path) -> None:
    maven = fake_repository(tmp_path)
    assert rehearse.incomplete(maven, list(LINES)) == []
    (pom,) = maven.rglob(f"*spark{max(LINES)}*.pom")
    pom.write_text(pom.read_text().replace("<scm>x</scm>", ""))
    (javadoc,) = maven.rglob(f"*spark{min(LINES)}*-javadoc.jar.asc")
    javadoc.unlink()
    assert sorted(rehearse.incomplete(maven, list(LINES))) == sorted(
        [
            f"missing: {javadoc.relative_to(maven)}",
            f"not the sum of the file: {pom.name}.md5",
            f"not the sum of the file: {pom.name}.sha1",
            f"{pom.name} has no scm",
        ]
    )


def test_the_rehearsal_finds_a_file_that_is_not_in_the_bundle(tmp_path: Path) -> None:
    maven = fake_repository(tmp_path / "maven")
    files = sorted(str(file.relative_to(maven)) for file in maven.rglob("*") if file.is_file())
    for left_out in ([], files[:1]):
        with ZipFile(tmp_path / "bundle.zip", "w") as archive:
            for name in files:
                if name not in left_out:
                    archive.writestr(name, "")
        found = rehearse.not_as_bundled(maven, tmp_path / "bundle.zip")
        assert found == [f"only in one of repository and bundle: {name}" for name in left_out]


def test_the_rehearsal_finds_a_font_without_a_license(tmp_path: Path) -> None:
    licenses = ROOT / "scala" / "published" / "licenses"
    jar = tmp_path / "x-javadoc.jar"
    with ZipFile(jar, "w") as archive:
        for file in [*licenses.iterdir(), ROOT / "LICENSE"]:
            archive.write(file, f"META-INF/{file.name}")
        for name in ("index.html", "lib/index.js", "lib/jquery.min.js", "lib/lato-v11-latin-100.ttf"):
            archive.writestr(name, "")
    assert rehearse.without_license(jar) == []
    with ZipFile(jar, "a") as archive:
        archive.writestr("lib/new-font.woff", "")
    (problem,) = rehearse.without_license(jar)
    assert "lib/new-font.woff, whose license META-INF/NOTICE does not name" in problem
    assert "SIL OPEN FONT LICENSE" in (licenses / "OFL-1.1.txt").read_text()


def test_the_rehearsal_finds_a_broken_bill_of_materials() -> None:
    bill = '{"bomFormat": "CycloneDX", "specVersion": "1.6", "components": [%s]}'
    assert rehearse.invalid_bill(bill % '{"type": "library", "name": "x"}') == []
    assert rehearse.invalid_bill(bill % "{}") == ["the bill of materials: 'type' is a required property"]
