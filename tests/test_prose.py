"""What `make lint-prose` finds in pages and commits, and what it lets pass."""

import os
import re
import subprocess
from pathlib import Path

import prose
import pytest
from conftest import ROOT

LONG = "word " * 30


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A short line.", []),
        (LONG, [f"1: {len(LONG)} characters, at most 120"]),
        (f"- {LONG}\n> {LONG}", [f"{line}: {len(LONG) + 2} characters, at most 120" for line in (1, 2)]),
        # What may be long.
        (f"| {LONG} |\n\n# {LONG}\n\n```python\n{LONG}\n```\n\n[name]: {LONG}", []),
        (f"[{'x' * 121}](x)\n- {'x' * 121}\n1. {'x' * 121}", []),
        # Phrases: across lines, in any case, in tables and headings; not inside of words.
        ("# Title\n\nWhat\ncomes out.", ['4: "comes out": write emit']),
        ("Rows come\nout, and | Rows MEET |", ['1: "come out": write emit', '2: "MEET": write match']),
        ("Besides, the meetings were outcomes; a nametag.", []),
        ("No row can match any more.", ['1: "any more": write no longer']),
        ("There are not any more rows.", []),
        ("The same with the other.", ['1: "The same with": write what is the same, in a full sentence']),
        ("The same query runs with the same input. It gives the same with both.", []),
        # Code and the targets of links are not prose.
        ("`come out` [a](beside.md#beside)\n\n```text\ncome out\n```", []),
        ("[beside](x.md)", ['1: "beside": write alongside, next to; compared with']),
    ],
)
def test_what_is_found_in_a_page(text: str, found: list[str]) -> None:
    assert list(prose.check_page(text)) == found


def test_what_is_found_in_comments() -> None:
    scala = f"""\
/** {"x" * 97} */
val text = "{"x" * 100}"
  // What comes
  // out, `comes out`.
"""
    found = [f"1: {4 + 97 + 3} characters in a comment, at most 100", '3: "comes out": write emit']
    comment = prose.COMMENTS[".scala"]
    assert list(prose.check_comments(scala, comment, phrases=True)) == found
    assert list(prose.check_comments(scala, comment, phrases=False)) == found[:1]
    python = f"# {'x' * 98}\nx = 1  # {'x' * 98}\n# {'x' * 99}"
    found = ["3: 101 characters in a comment, at most 100"]
    assert list(prose.check_comments(python, prose.COMMENTS[".py"], phrases=False)) == found


@pytest.mark.parametrize("pattern", prose.PHRASES)
def test_a_phrase_says_what_to_write_and_does_not_suggest_another(pattern: str) -> None:
    instead = prose.PHRASES[pattern]
    assert instead
    assert list(prose.check_page(instead)) == []


@pytest.mark.parametrize(
    "subject",
    [
        "Fix duplicate rows after a restored checkpoint",
        "Pass the limit to tasks",
        "Embed the figures",
        "Speed up probes",
        "Bring back the index",
        "Re-read the block",
        "Docs: rewrite the migration page",
        f"Merge {'1a2b3c4d' * 5} into {'1a2b3c4d' * 5}",
        'Revert "reads"',
    ],
)
def test_a_subject_that_passes(subject: str) -> None:
    assert list(prose.check_subjects([f"1a2b3c4 {subject}"])) == []


@pytest.mark.parametrize(
    "subject",
    [
        "fix duplicate rows",
        "Docs: what the page prints",
        "Docs: rewrites the page",
        "docs: rewrite the page",
        "Fixed duplicate rows",
        "Fixes duplicate rows",
        "Fixing duplicate rows",
        "The index is gone",
        "Index",
    ],
)
def test_a_subject_that_is_no_imperative(subject: str) -> None:
    (found,) = prose.check_subjects([f"1a2b3c4 {subject}"])
    assert found == f'1a2b3c4: does not start with an imperative such as "Fix": {subject}'


def test_a_subject_that_is_too_long() -> None:
    assert list(prose.check_subjects([f"1a2b3c4 Fix {'x' * 68}"])) == []
    (found,) = prose.check_subjects([f"1a2b3c4 Fix {'x' * 69}"])
    assert found.startswith("1a2b3c4: 73 characters, at most 72: Fix x")


def test_the_commits_of_a_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the base all that are there count, without git none."""
    whole, shallow = tmp_path / "whole", tmp_path / "shallow"

    def git(*arguments: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b")
        # No configuration of the machine, such as a template or signing.
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
        command = ["git", *identity, *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        ).stdout.strip()

    def found(folder: Path) -> list[str]:
        return [line.split(" ", 1)[1] for line in prose.subjects(folder)]

    git("init", "--quiet", str(whole))
    for subject in ("old ways", "the base", "Add one", "Add two"):
        git("-C", str(whole), "commit", "--quiet", "--allow-empty", "--message", subject)
    git("clone", "--quiet", "--depth=1", f"file://{whole}", str(shallow))
    monkeypatch.setattr(prose, "BASE", git("-C", str(whole), "rev-parse", "HEAD~2"))
    assert found(whole) == ["Add two", "Add one"]
    assert found(shallow) == ["Add two"]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert found(whole) == []
    assert prose.subjects(tmp_path) == []


def test_the_program_lists_what_it_finds(capsys: pytest.CaptureFixture[str]) -> None:
    page = ROOT / "docs" / "no-page.md"
    page_text = "A row comes out.\n"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "read_text", lambda self, encoding: page_text)
        with pytest.raises(SystemExit, match="1 line"):
            prose.main([str(page)])
    assert capsys.readouterr().out == 'docs/no-page.md:1: "comes out": write emit\n'


def test_the_pages_are_those_for_readers() -> None:
    names = {str(page.relative_to(ROOT)) for page in prose.pages_of(ROOT)}
    assert {"README.md", "CONTRIBUTING.md", "docs/index.md", "docs/recipes/trades-and-quotes.md"} <= names
    assert not any(re.match(r"(docs/)?CHANGELOG|build/", name) for name in names)


def test_the_code_is_that_of_all_folders() -> None:
    names = {str(file.relative_to(ROOT)) for file in prose.code_of(ROOT)}
    assert len(names) > 200
    assert {"scala/core/src/main/scala/streamjoin/core/AsOf.scala", "project/lint/prose.py"} <= names
    assert not any("target" in name.split("/") for name in names)
