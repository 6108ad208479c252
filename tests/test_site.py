"""The site of the documentation builds without a warning, and none of its internal links is broken.

Nor is any link between the Markdown files that readers see in the repository.
"""

import ast
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from conftest import ROOT

DOCS = ROOT / "docs"


class Page(HTMLParser):
    """The ids of a page of the site, and what it links to."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.ids = set[str]()
        self.links = list[str]()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site once, as `make docs` does, with an empty page in place of the Scala API."""
    folder = tmp_path_factory.mktemp("site")
    options = ["--fail-on-warning", "--keep-going", "--quiet", "-t", "scaladoc", "-d", str(folder / "doctrees")]
    options += ["-c", str(DOCS)]
    command = [sys.executable, "-m", "sphinx", *options, str(ROOT), str(folder / "html")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"the site has warnings:\n{done.stdout}\n{done.stderr}"
    (folder / "html" / "scaladoc").mkdir()
    (folder / "html" / "scaladoc" / "index.html").touch()
    return folder / "html"


def broken(site: Path) -> Iterator[str]:
    """Yield the internal links of all pages that lead to a missing file, or to a missing place in it."""
    pages = {file: Page(file) for file in site.rglob("*.html")}
    for file, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if not target.is_file():
                yield f"{file.relative_to(site)}: {link}"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
                yield f"{file.relative_to(site)}: no such place {link}"


def test_every_link_inside_of_the_site_leads_somewhere(site: Path) -> None:
    assert len(list(site.rglob("*.html"))) > 30
    # Furo marks the page itself with "#", and Sphinx the headings with their own ids.
    assert [each for each in broken(site) if not each.endswith(": #")] == []


def test_the_scala_page_links_to_the_scala_api(site: Path) -> None:
    assert "../scaladoc/index.html" in Page(site / "docs" / "scala.html").links


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<p id="here"><a href="b.html">b</a><a href="#here">h</a><a href="#there">t</a>')
    assert sorted(broken(tmp_path)) == ["a.html: b.html", "a.html: no such place #there"]


def test_every_page_is_in_the_contents_and_on_the_landing_page() -> None:
    sections: dict[str, list[str]] = runpy.run_path(str(DOCS / "conf.py"))["SECTIONS"]
    listed = [page for pages in sections.values() for page in pages]
    files = [*DOCS.glob("*.md"), *DOCS.glob("*.rst"), *DOCS.glob("recipes/*.md")]
    pages = {str(file.relative_to(DOCS).with_suffix("")) for file in files} - {"index"}
    assert {page for page in listed if not page.startswith("../")} == pages
    linked = re.findall(r"\]\(([^)#]*)\.(?:md|rst)\)", (DOCS / "index.md").read_text(encoding="utf-8"))
    assert set(linked) == set(listed)
    headings = re.findall(r"^## (.*)$", (DOCS / "index.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings == list(sections)


def test_the_joins_of_the_picture_are_those_of_its_page() -> None:
    picture = (DOCS / "pictures" / "which-join.svg").read_text(encoding="utf-8")
    page = (DOCS / "which-join.md").read_text(encoding="utf-8")
    names = re.findall(r'class="b"[^>]*y="362"[^>]*>([^<]+)<', picture)
    assert names == ["as-of join", "interval join", "window join", "temporal join", "look-up", "delta join"]
    headings = re.findall(r"^### .*: (.*)$", page, re.MULTILINE)
    assert sorted(headings) == sorted(names)
    for call in re.findall(r'class="code"[^>]*>([^<]+)<', picture):
        for name in (each for each in call.split(", ") if each.startswith("sj.")):
            assert f"{name}(" in page


def test_the_results_of_the_benchmarks_are_pages(site: Path) -> None:
    made: dict[str, Any] = runpy.run_path(str(DOCS / "benchmark_pages.py"))
    text = (site / "docs" / "benchmarks.html").read_text(encoding="utf-8")
    assert made["pages"]()
    for file in made["pages"]():
        assert (site / "benchmarks" / "results" / f"{file.stem}.html").is_file()
        assert f'href="../benchmarks/results/{file.stem}.html"' in text


def test_the_list_of_results_counts_goals(tmp_path: Path) -> None:
    made: dict[str, Any] = runpy.run_path(str(DOCS / "benchmark_pages.py"))
    table = "| goal | measured | met |\n|---|---:|---:|\n| a | 1x | yes |\n| b | 2x | **no** |\n| c | 3x |    yes |\n"
    table += "| d | - | not measured |\n| e | - | see [other.md](other.md) |\n"
    (tmp_path / "full.md").write_text(f"# Title\n\n2026-01-02 and 2025-12-31\n\n## Goals\n\n{table}")
    for part in ("full-x0.1", "full-xsides", "full-xsides-x10"):
        (tmp_path / f"{part}.md").write_text("# Part\n")
    (row,) = made["overview"](tmp_path).splitlines()[2:]
    assert row == "| [full.md](../benchmarks/results/full.md) | Title | 1 | 2026-01-02 | 2 of 4, 1 not measured |"


def test_every_public_name_of_python_is_in_the_api() -> None:
    stub = ast.parse((ROOT / "python" / "src" / "streamjoin" / "__init__.pyi").read_text(encoding="utf-8"))
    public = {name.asname or name.name for node in stub.body if isinstance(node, ast.ImportFrom) for name in node.names}
    text = (DOCS / "api.rst").read_text(encoding="utf-8")
    documented = re.findall(r"^\.\. (?:auto\w+|py:data):: (\w+)$", text, re.MULTILINE)
    assert len(documented) == len(set(documented))
    assert set(documented) == public


def place(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def test_links_between_the_files_of_the_repository_lead_somewhere() -> None:
    files = [
        *ROOT.glob("*.md"),
        *ROOT.glob(".github/**/*.md"),
    ]
    for folder in ("docs", "examples", "benchmarks", "tests/cases"):
        files += (ROOT / folder).rglob("*.md")
    wrong = []
    for file in files:
        text = re.sub(r"^```.*?^```$", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text)):
            path, _, fragment = link.partition("#")
            if urlsplit(link).scheme:
                continue
            target = (file.parent / path).resolve() if path else file
            if not target.exists():
                wrong.append(f"{file.relative_to(ROOT)}: {link}")
            elif fragment and target.suffix == ".md":
                headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
                if fragment not in map(place, headings):
                    wrong.append(f"{file.relative_to(ROOT)}: no such place {link}")
    assert len(files) > 25
    assert wrong == []
