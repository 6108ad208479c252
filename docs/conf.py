"""The documentation as a site: ``make docs``. The source folder is the root of the project, so links work as in git."""

import sys
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python" / "src"), str(ROOT / "docs")]

import benchmark_pages  # noqa: E402

project = "streamjoin"
author = "the authors of streamjoin"
release = (ROOT / "VERSION").read_text().strip()
version = release

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
results = [str(file.relative_to(ROOT)) for file in benchmark_pages.pages()]
texts = ["CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "benchmarks/README.md"]
include_patterns = ["docs/*.md", "docs/*.rst", "docs/recipes/*.md", *texts, *results]
exclude_patterns = [".*", "build", "dist", "examples", "project", "python", "scala", "target", "tests"]
myst_heading_anchors = 3
autodoc_typehints = "description"

html_theme = "furo"
html_title = f"streamjoin {release}"
html_extra_path = ["site"]
html_copy_source = False

SECTIONS = {
    "Getting started": ["getting-started", "how-it-works", "coming-from"],
    "Which join": ["which-join"],
    "The joins": ["window-joins", "temporal-joins", "tables", "delta-joins", "upsert", "arrangements", "sql"],
    "Recipes": [
        "recipes/clicks-and-impressions",
        "recipes/orders-and-late-payments",
        "recipes/trades-and-quotes",
        "recipes/sensors-and-calibration",
        "recipes/tables-kept-joined",
    ],
    "Running it": [
        "production",
        "no-rows",
        "monitoring",
        "tuning",
        "migration",
        "evolution",
        "compatibility",
        "reliability",
        "benchmarks",
        "nexmark",
        "../benchmarks/README",
        "../SECURITY",
    ],
    "Reference": ["reference", "errors", "api", "scala", "../CHANGELOG"],
    "Changing it": ["../CONTRIBUTING", "first-contribution", "architecture", "../CODE_OF_CONDUCT"],
}


def toctree(caption: str, pages: list[str]) -> str:
    """Return a table of contents that only the sidebar shows."""
    return f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(pages) + "\n```\n"


def add_contents(app: Sphinx, name: str, source: list[str]) -> None:
    """Add the parts that exist only on the site: table of contents, results, the link to the Scala API."""
    if name == root_doc:
        source[0] += "".join(toctree(caption, pages) for caption, pages in SECTIONS.items())
    elif name == "docs/benchmarks":
        assert benchmark_pages.MARKER in source[0]
        source[0] = source[0].replace(benchmark_pages.MARKER, benchmark_pages.overview())
        source[0] += toctree("Results", [f"../{file.removesuffix('.md')}" for file in results])
    elif name == "docs/scala" and app.tags.has("scaladoc"):
        source[0] += (
            '\n## All classes\n\n<a href="../scaladoc/index.html">The Scala API</a>, from the comments in the code.\n'
        )


def setup(app: Sphinx) -> None:
    """Register the hook."""
    app.connect("source-read", add_contents)
