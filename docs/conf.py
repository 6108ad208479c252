"""The documentation as a site: ``make docs``. Its source folder is the root of the project, so links work as in git."""

import sys
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python" / "src"))

project = "streamjoin"
author = "the authors of streamjoin"
release = (ROOT / "VERSION").read_text().strip()
version = release

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = ["docs/*.md", "docs/*.rst", "CONTRIBUTING.md", "CHANGELOG.md"]
exclude_patterns = [".*", "benchmarks", "build", "dist", "examples", "project", "python", "scala", "target", "tests"]
myst_heading_anchors = 3
autodoc_typehints = "description"

html_theme = "furo"
html_title = f"streamjoin {release}"
html_extra_path = ["site"]
html_copy_source = False

PAGES = [
    "getting-started",
    "how-it-works",
    "window-joins",
    "arrangements",
    "delta-joins",
    "tables",
    "temporal-joins",
    "sql",
    "tuning",
    "migration",
    "reference",
    "api",
    "scala",
    "reliability",
    "../CONTRIBUTING",
    "architecture",
    "../CHANGELOG",
]


def add_contents(app: Sphinx, name: str, source: list[str]) -> None:
    """Give the landing page a table of contents that readers of the file itself do not see."""
    if name == root_doc:
        source[0] += "\n```{toctree}\n:hidden:\n\n" + "\n".join(PAGES) + "\n```\n"


def setup(app: Sphinx) -> None:
    """Register the hook."""
    app.connect("source-read", add_contents)
