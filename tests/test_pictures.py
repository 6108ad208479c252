"""The pictures of a query in a browser: wide and narrow, with many inputs, with bounds from a second to a month."""

import json
import re
import threading
from html import unescape
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs

import pytest
from browser import document, needs_browser
from conftest import LONG, ROOT
from made_figures import made

from streamjoin.monitoring._report_page import json_for_script, read_scripts

WIDTHS = (800, 1400, 2000)
BOUNDS = (1000, 3_600_000, 30 * 24 * 3_600_000)


def result_of(page: str) -> dict[str, Any]:
    """Return what a page's script has written to its element ``found``."""
    text = re.search(r'<pre id="found">(.*?)</pre>', page, re.DOTALL)
    assert text is not None
    found: dict[str, Any] = json.loads(unescape(text[1]) or "{}")
    return found


@pytest.mark.skipif(not LONG, reason="a part of make test-long; test_ui.py looks at the report in a browser")
@needs_browser
def test_pictures_of_all_sizes(tmp_path: Path) -> None:
    """No text covers another or a mark, no bar is a hairline, the full width is used, colors match the page."""
    batches = [made(inputs, bound) for inputs in (2, 12) for bound in BOUNDS]
    batches += [made(2, BOUNDS[1], future=True), made(3, 5000, 1), made(2, BOUNDS[1], 300)]
    look = (ROOT / "tests" / "look.js").read_text(encoding="utf-8")
    places, shows = [], []
    for width, theme, background in zip(WIDTHS, ("light", "dark", "light"), ("#fff", "#111", "#f8f8f8"), strict=True):
        for number, of in enumerate(batches):
            place = f"of-{width}-{number}"
            data = f'id="{place}" data-look="{width} {theme}" data-of="{of[0]["name"]}"'
            places.append(f'<div style="width:{width - 40}px;background:{background}"><div {data}></div></div>')
            shows.append(f'StreamJoin.show(document.getElementById("{place}"), {{ batches: all[{number}] }});')
    scripts = f"{read_scripts()}\nconst all = {json_for_script(batches)};{''.join(shows)}\n{look}"
    body = f'{"".join(places)}<pre id="found"></pre><script>{scripts}</script>'
    file = tmp_path / "page.html"
    file.write_text(f'<!doctype html><meta charset="utf-8"><body>{body}', encoding="utf-8")
    found = result_of(document(file.as_uri(), tmp_path / "profile"))
    assert found["looked"] > 1000
    assert found["found"] == []


class Tab(BaseHTTPRequestHandler):
    """The tab as Spark's page shows it, without Spark: each request for the figures finds one more batch."""

    batches = made(2, 3_600_000, 30)
    known = 10
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        Tab.asked.append(self.path)
        path, _, query = self.path.partition("?")
        parameters = parse_qs(query)
        if path == "/figures/":
            if "last" in parameters:
                Tab.known = min(Tab.known + 1, len(Tab.batches))
            found = Tab.batches[: Tab.known]
            if "series" in parameters:
                # Only sums. Batches 5 and 6 are one point; 6 is also among the full batches.
                found = [one | {"operators": [{**each, "tasks": None} for each in one["operators"]]} for one in found]
                found[5:7] = [found[6] | {"firstBatch": 5, "batches": 2}]
            else:
                found = found[-int(parameters.get("last", ["4"])[0]) :]
            self.answer("application/json", json.dumps(found))
        elif path == "/page.js":
            self.answer("text/javascript", (STATIC / "page.js").read_text(encoding="utf-8"))
        else:
            self.answer("text/html; charset=utf-8", TAB % read_scripts())

    def answer(self, kind: str, text: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


STATIC = ROOT / "scala/spark/src/main/resources/org/apache/spark/sql/streamjoin/observe/publish/page/static"
# A page whose colors a button changes, as Spark's from 4.2 on.
TAB = """<!doctype html><style>body { background: #fff } [data-bs-theme="dark"] body { background: #212529 }</style>
<body><div id="sj-plan" data-figures="figures/?query=q" data-query="q" data-live="true"></div>
<details id="sj-table" open><summary>table</summary></details><pre id="found"></pre>
<script>%s</script><script src="page.js"></script><script>
const plan = document.getElementById("sj-plan"), seen = [];
setTimeout(() => { seen.push(plan.dataset.theme); document.documentElement.dataset.bsTheme = "dark"; }, 4000);
setTimeout(() => {
  seen.push(plan.dataset.theme);
  document.querySelector(".sj-choose input").value = 2;
  document.querySelector(".sj-choose input").dispatchEvent(new Event("input"));
}, 6000);
setTimeout(() => {
  document.getElementById("found").textContent = JSON.stringify({ themes: seen, shown: plan.dataset.shown,
    drawn: Number(plan.dataset.drawn), last: plan.dataset.batch, search: location.search, failed: plan.dataset.failed,
    batches: Number(document.querySelector('[data-total="batches"]').dataset.value),
    columns: document.querySelectorAll('[data-series="state"] .sj-line').length });
}, 20000);
</script>"""


@needs_browser
def test_the_tab_stays_on_its_query_and_batch(tmp_path: Path) -> None:
    with HTTPServer(("127.0.0.1", 0), Tab) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/"
        page = document(address, tmp_path / "profile", milliseconds=25_000)
        server.shutdown()
    found = result_of(page)
    assert found["search"] == "?query=q"
    assert found["themes"] == ["light", "dark"]
    # A batch every two seconds, in addition to the first ten; the chosen one stays.
    assert found["drawn"] >= 6
    assert int(found["last"]) == 9 + found["batches"] - 10
    assert found["shown"] == "9"
    assert "failed" not in found
    assert found["columns"] == 2
    assert {path for path in Tab.asked if "figures" in path} == {
        "/figures/?query=q",
        "/figures/?query=q&series=1",
        "/figures/?query=q&last=1",
    }
