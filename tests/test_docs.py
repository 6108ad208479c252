"""The tables of `docs/reference.md` list exactly the settings that the code has."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT

SOURCES = [ROOT / "scala" / "spark" / "src" / "main", ROOT / "python" / "src"]
SETTING = re.compile(r"\bspark\.streamjoin(?:\.[A-Za-z][A-Za-z0-9]*)+")
FIRST_CELL = re.compile(r"^\|\s*`([^`]+)`\s*\|", re.MULTILINE)


def documented(pattern: str) -> set[str]:
    """Return the names in the first column of the reference's tables that match a pattern completely."""
    cells = FIRST_CELL.findall((ROOT / "docs" / "reference.md").read_text(encoding="utf-8"))
    names = [cell for cell in cells if re.fullmatch(pattern, cell)]
    assert len(names) == len(set(names)), f"listed twice: {sorted(names)}"
    return set(names)


def source_files() -> Iterator[Path]:
    for folder in SOURCES:
        yield from (file for file in folder.rglob("*") if file.suffix in {".scala", ".java", ".json", ".py"})


PAGES = sorted((ROOT / "docs").glob("*.md")) + sorted((ROOT / "docs" / "recipes").glob("*.md"))
# Pages for those who change or measure the project open with a command of its Makefile.
COMMANDS = {"benchmarks.md", "first-contribution.md", "nexmark.md"}


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "index.md"], ids=lambda page: page.name)
def test_a_page_opens_with_the_question_it_answers_and_a_query_that_runs(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    title, first, *_ = text.split("\n\n")
    assert title.startswith("# ")
    assert "?" in first, "the first paragraph has the question"
    # What runs: test_doc_code.py for Python and SQL, ScalaApiSuite for Scala.
    kinds = {"bash"} if page.name in COMMANDS else {"scala"} if page.name == "scala.md" else {"python", "sql"}
    fences = [(number, line[3:]) for number, line in enumerate(text.splitlines(), 1) if line.startswith("```")]
    opened = [(number, kind) for number, kind in fences[::2] if kind in kinds]
    assert opened and opened[0][0] <= 36, f"the first block that runs: {opened[:1]}"
    if page.name in COMMANDS:
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        assert re.findall(r"^make ([a-z-]+)", text.split("```bash\n")[1], re.MULTILINE)[0] in targets


def test_the_code_of_the_readme_has_at_most_88_columns() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    code = [line for block in re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S) for line in block.splitlines()]
    assert code
    assert [line for line in code if len(line) > 88] == []


def test_every_setting_is_in_the_table_and_the_other_way_round() -> None:
    found = {name for file in source_files() for name in SETTING.findall(file.read_text(encoding="utf-8"))}
    assert found, "the pattern finds settings"
    assert documented(SETTING.pattern) == found
