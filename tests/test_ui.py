"""The tab "Stream joins" of Spark's web page, as a browser shows it."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from browser import CHROMIUM, document
from conftest import PATIENCE, ROOT

# How long the page looks for new batches, by its own clock. It does not move while the page waits.
PAGE_MS = 600_000


class Job(NamedTuple):
    """A job that runs: the address of its page, and the id of its query."""

    page: str
    query: str

    @property
    def tab(self) -> str:
        return f"{self.page}/streamjoin/?query={self.query}"

    def has_batch(self) -> bool:
        """Whether the page has a tab with the query's figures."""
        # Without a tab, Spark answers with its own page.
        try:
            with urlopen(f"{self.page}/streamjoin/figures/?query={self.query}&last=1") as answer:
                return bool(json.load(answer))
        except ValueError:
            return False


@pytest.fixture(scope="module")
def job() -> Iterator[Job]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium (Debian's package `chromium`)")
    command = [sys.executable, str(ROOT / "tests" / "jobs" / "ui_job.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            # Spark prints about itself first.
            line = next(line for line in process.stdout if line.startswith("http"))
            page, query = line.split()
            # The name of this machine may lead a browser to a proxy.
            yield Job(f"http://localhost:{urlsplit(page).port}", query)
        finally:
            process.stdin.close()
            process.wait(PATIENCE)


def test_a_browser_draws_each_new_batch(job: Job, tmp_path: Path) -> None:
    until = time.monotonic() + PATIENCE
    while not job.has_batch():
        assert time.monotonic() < until
        time.sleep(0.2)
    page = document(job.tab, tmp_path / "profile", milliseconds=PAGE_MS)
    plan = re.search(r'<div id="sj-plan"[^>]*>', page)
    assert plan is not None
    assert 'data-live="true"' in plan[0]
    drawn = re.search(r'data-drawn="(\d+)"', plan[0])
    assert drawn is not None, plan[0]
    assert int(drawn[1]) > 1
    assert 'class="sj-state"' in page
    assert all(f'data-series="{name}"' in page for name in ("watermarks", "rows", "state", "phases"))
    assert 'data-input="orders"' in page
    assert "left outer interval join" in page
    # The name of the query is text wherever the page contains it.
    assert "<title>taken</title>" not in page
    assert "&lt;script&gt;document.title" in page
    assert "<script>document.title" not in page
