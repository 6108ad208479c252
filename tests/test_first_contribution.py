"""`docs/first-contribution.md` is true: what it quotes is in the files that it names, and its patches apply.

It fails on purpose when the code has changed: quote the new place, and update the patch.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT

PAGE = (ROOT / "docs" / "first-contribution.md").read_text(encoding="utf-8")
QUOTE = re.compile(r"[Ii]n\s+`([^`]+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DIFF = re.compile(r"^```diff\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)
CHANGES = {section.split(":")[0]: DIFF.findall(section) for section in SECTIONS if DIFF.search(section)}


def files_of(patch: str) -> list[str]:
    return re.findall(r"^\+\+\+ b/(.+)$", patch, re.MULTILINE)


def copy_of_the_sources(patches: list[str], folder: Path) -> None:
    """Copy the files that the patches change into an empty folder."""
    for name in (name for patch in patches for name in files_of(patch)):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)


def apply(patch: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Apply a patch to a folder that is not a repository. Every line around a change must match the patch."""
    return subprocess.run(
        ["git", "apply", "-"],
        cwd=folder,
        input=patch,
        env={"GIT_CEILING_DIRECTORIES": str(folder.parent), "PATH": "/usr/local/bin:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_page_quotes_places_and_has_two_changes() -> None:
    assert len(QUOTE.findall(PAGE)) >= 7
    assert list(CHANGES) == ["A metric", "A clause"]
    assert all(len(patches) >= 3 for patches in CHANGES.values())


@pytest.mark.parametrize(("name", "text"), QUOTE.findall(PAGE), ids=lambda value: str(value).strip()[-40:])
def test_a_quoted_place_is_in_its_file(name: str, text: str) -> None:
    assert text in (ROOT / name).read_text(encoding="utf-8"), f"{name} has not\n{text}"


@pytest.mark.parametrize("change", CHANGES)
def test_the_patches_of_a_change_apply(change: str, tmp_path: Path) -> None:
    patches = CHANGES[change]
    copy_of_the_sources(patches, tmp_path)
    for patch in patches:
        done = apply(patch, tmp_path)
        assert done.returncode == 0, f"{files_of(patch)}: {done.stderr}"
        for name in files_of(patch):
            text = (tmp_path / name).read_text(encoding="utf-8")
            added = re.findall(r"^\+(?!\+\+ )(.*)$", patch, re.MULTILINE)
            assert added
            assert all(line in text.splitlines() for line in added)
            if name.endswith(".py"):
                compile(text, name, "exec")
            if name.endswith(".scala"):
                assert [text.count(open) - text.count(close) for open, close in ("()", "[]", "{}")] == [
                    (ROOT / name).read_text(encoding="utf-8").count(open)
                    - (ROOT / name).read_text(encoding="utf-8").count(close)
                    for open, close in ("()", "[]", "{}")
                ]
                assert max(map(len, added)) <= 110, f"{name}: scalafmt would break these lines"


def test_a_patch_for_lines_that_are_gone_fails(tmp_path: Path) -> None:
    patches = CHANGES["A metric"]
    copy_of_the_sources(patches, tmp_path)
    changed = next(tmp_path.rglob("IntervalJoinTask.scala"))
    changed.write_text(changed.read_text(encoding="utf-8").replace("reader.toStoredRow(row)", "reader.stored(row)"))
    assert [apply(patch, tmp_path).returncode == 0 for patch in patches].count(False) == 1


def test_the_names_of_the_page_are_not_taken() -> None:
    """Otherwise the page teaches what already exists."""
    sources = [*(ROOT / "scala" / "spark" / "src" / "main").rglob("*.scala"), ROOT / "docs" / "reference.md"]
    assert len(sources) > 100
    assert [file for file in sources if "notStoredRows" in file.read_text(encoding="utf-8")] == []
