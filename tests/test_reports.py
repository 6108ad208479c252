"""A query's batches as a report in one file and live: from every location, and with names that try to be HTML."""

import http.server
import json
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import pytest
from browser import document, needs_browser
from conftest import ROOT, rejected, run
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import IntegerType, StructType, TimestampType
from queries import Inputs

import streamjoin as sj
from streamjoin.monitoring import _files, _screen
from streamjoin.monitoring._report_page import _hints, render_page
from streamjoin.monitoring._series import QueryBatches, Series
from streamjoin.monitoring._sources import parse_lines, read_location
from streamjoin.monitoring._terminal_table import as_text, sparkline

Figures = dict[str, Any]
NAME = "</script><script>alert('o\")</script>"
TIME = "<img src=x onerror=alert(1)>"


class Ran(NamedTuple):
    """A query that has run, where its history and its checkpoint are, and the figures of its batches."""

    query: StreamingQuery
    history: Path
    checkpoint: Path
    figures: list[Figures]


@pytest.fixture(scope="module")
def ran(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    """Three orders and a delivery in two batches, with hostile names of inputs and columns."""
    folder = tmp_path_factory.mktemp("reports")
    schema = StructType().add("id", IntegerType()).add(TIME, TimestampType())

    inputs = Inputs(spark, folder)

    def stream(name: str) -> Any:
        return inputs.stream(name, schema).withWatermark(f"`{TIME}`", "10 seconds")

    for name, rows in {"orders": [(1, "09:00"), (2, "09:30"), (3, "11:00")], "deliveries": [(1, "09:20")]}.items():
        for key, time in rows:
            inputs.feed(name, {"id": key, TIME: f"2026-01-01T{time}:00Z"})
    spark.conf.set("spark.streamjoin.history", str(folder / "history"))
    # With pytest -s this is a terminal.
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(_screen, "in_terminal", lambda: False)
    try:
        joined = sj.join(stream("orders").alias(NAME), stream("deliveries"), "id", within=("0 seconds", "1 hour"))
        writer = joined.writeStream.format("noop").queryName(NAME)
        query = writer.start(checkpointLocation=str(folder / "checkpoint"))
        query.processAllAvailable()
        query.stop()
        sj.watch(query)  # waits for the figures of the last batch
        lines = [row.figures for row in spark.sql(f"SELECT figures FROM sj_figures('{query.id}')").collect()]
        yield Ran(query, folder / "history", folder / "checkpoint", [json.loads(line) for line in lines])
    finally:
        monkeypatch.undo()
        spark.conf.unset("spark.streamjoin.history")


class Page(HTMLParser):
    """The elements of a page, and the text of those whose text matters."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = tag
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self.inside, []).append(data)

    def count(self, tag: str) -> int:
        return sum(found == tag for found, _ in self.elements)

    @property
    def data(self) -> list[Figures]:
        found: list[Figures] = json.loads(self.texts["script"][0])
        return found


def checked(file: Path) -> Page:
    """Return the page of a report after checking that it loads nothing and that no name has become an element."""
    found = Page(file.read_text(encoding="utf-8"))
    assert found.count("script") == 3, "the data, what draws and what shows it"
    assert found.count("img") == 0
    assert not [attributes for _, attributes in found.elements if {"src", "href", "onerror"} & attributes.keys()]
    assert found.texts["title"] == [f"Streaming joins: {NAME}"]
    return found


def test_the_figures_are_as_the_schema_says(ran: Ran) -> None:
    schema = json.loads((ROOT / "docs" / "figures.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    valid = jsonschema.Draft202012Validator(schema)
    assert len(ran.figures) >= 2
    for figures in [*ran.figures, with_all(ran.figures[-1])]:
        assert [f"{error.json_path}: {error.message}" for error in valid.iter_errors(figures)] == []
    # The schema names every field that there is, and would notice one that is missing.
    names = set(json.dumps(schema).split('"'))
    operator = ran.figures[-1]["operators"][0]
    for described in (ran.figures[-1], operator, operator["inputs"][0], operator["inputs"][0]["columns"][0]):
        assert described.keys() <= names
    assert list(valid.iter_errors(ran.figures[-1] | {"operators": [{**operator, "inputs": [{}]}]}))


def test_a_report_of_each_place(ran: Ran, spark: SparkSession, tmp_path: Path) -> None:
    places: dict[str, tuple[StreamingQuery | str | Path, Path | None]] = {
        "query": (ran.query, None),
        "history": (ran.history, None),
        "one query of it": (str(ran.history / str(ran.query.id)), None),
        "checkpoint": (ran.checkpoint, ran.history),
        "checkpoint of the session's history": (ran.checkpoint, None),
    }
    expected = [figures["batch"] for figures in ran.figures]
    for place, (of, history) in places.items():
        found = checked(sj.report(of, tmp_path / "report.html", history=history))
        (query,) = found.data
        assert [figures["batch"] for figures in query["batches"]] == expected, place
        assert query["batches"][-1]["operators"][0]["inputs"][0]["name"] == NAME
        if of == ran.checkpoint:
            assert query["files"].keys() >= {"commits", "metadata", "offsets", "state"}
            assert query["files"]["metadata"] == {"files": 1, "bytes": (ran.checkpoint / "metadata").stat().st_size}
        else:
            assert not query["files"], place


def test_a_place_that_only_spark_reads(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_files, "local_path", lambda place: None)
    monkeypatch.setattr(_screen, "in_terminal", lambda: False)
    for place in (ran.history, ran.checkpoint):
        assert read_location(str(place), str(ran.history), "test") == {str(ran.query.id): ran.figures}
    rejected("STREAMJOIN_NO_FIGURES.LOCATION", lambda: sj.watch(str(ran.history / "nothing")), "is not a history")
    with pytest.raises(FileNotFoundError):  # History lists the folder again
        _files.read_with_spark(str(ran.history / "nothing"))
    with ThreadPoolExecutor(1) as display:
        found = display.submit(read_location, str(ran.history), None, "test").result()
    assert found == {str(ran.query.id): ran.figures}
    patterns = shutil.copytree(ran.history, ran.history.with_name("history {1} [a]"))
    assert read_location(str(patterns), None, "test") == {str(ran.query.id): ran.figures}


@pytest.mark.parametrize("scheme", ["", "file:", "file://", "file://localhost"])
def test_a_path_has_no_query(scheme: str) -> None:
    assert _files.local_path(f"{scheme}/data/#1?a%20b") == Path("/data/#1?a%20b")
    assert _files.local_path("s3a://bucket/data") is None


def with_all(figures: Figures) -> Figures:
    """Return figures with every field that may be there."""
    copy: Figures = json.loads(json.dumps(figures))
    copy["triggerMs"] = 1000
    (operator,) = copy["operators"]
    operator["hints"] = ["5 rows wait <b>"]
    of = f"deliveries.{TIME} - orders.{TIME}"
    buckets = [{"fromMs": 0, "toMs": 1000, "pairs": 3}, {"fromMs": 60_000, "toMs": 120_000, "pairs": 1}]
    operator["distances"] = {"of": of, "lowestMs": 0, "highestMs": 3_600_000, "buckets": buckets}
    operator["inputs"][0] |= {
        "late": 2,
        "lateness": {"delayMs": 10_000, "buckets": [{"fromMs": 0, "toMs": 1000, "rows": 97}]},
        "hotKeys": [{"share": 0.4, "key": "the value of a row"}],
    }
    return copy


def test_a_report_has_no_values_and_each_hint_once(ran: Ran) -> None:
    batches = [with_all(figures) for figures in ran.figures]
    text = render_page({"q": batches}, None)
    assert "the value of a row" not in text
    hint = next(row for row in text.splitlines() if '<tr class="hint">' in row)
    assert hint.count('<tr class="hint">') == 1 and f"<td>{len(batches)}, {batches[0]['batch']} to " in hint
    assert "5 rows wait &lt;b&gt;" in hint


def test_event_logs(ran: Ran, spark: SparkSession, tmp_path: Path) -> None:
    event = "org.apache.spark.sql.streamjoin.monitor.SparkListenerStreamJoinFigures"
    events = [{"Event": event, "figures": json.dumps(figures)} for figures in ran.figures]
    lines = [json.dumps(each) for each in [{"Event": "SparkListenerLogStart"}, *events, {"Event": event}]]
    text = "\n".join([*lines, f'{{"Event":"{event}","figures":"{{']).encode()  # the last line is not complete
    (tmp_path / "app-1.inprogress").write_bytes(text)
    jvm: Any = spark._jvm
    for codec in ("zstd", "lz4"):
        written = jvm.java.io.FileOutputStream(str(tmp_path / f"app-1.{codec}"))
        out = jvm.org.apache.spark.io.CompressionCodec.createCodec(jvm.org.apache.spark.SparkConf(), codec)
        stream = out.compressedOutputStream(written)
        stream.write(text)
        stream.close()
    rolling = tmp_path / "eventlog_v2_app-1"
    rolling.mkdir()
    # The tenth file comes after the second.
    for number, part in ((2, lines[:2]), (10, lines[2:])):
        (rolling / f"events_{number}_app-1").write_text("\n".join(part))
    (rolling / "appstatus_app-1").touch()
    for name in ("app-1.inprogress", "app-1.zstd", "app-1.lz4", "eventlog_v2_app-1"):
        assert read_location(str(tmp_path / name), None, "test") == {str(ran.query.id): ran.figures}, name


def test_a_batch_that_ran_again_counts_once() -> None:
    lines = [json.dumps({"id": "q", "batch": batch, "run": run}) for batch, run in ((1, 1), (0, 1), (1, 2))]
    assert [(each["batch"], each["run"]) for each in parse_lines([*lines, '{"id": "q", "bat'])["q"]] == [(0, 1), (1, 2)]


def test_the_live_table(ran: Ran) -> None:
    seen = sj.watch(ran.query)
    text = str(seen)
    assert "1 inner interval join: " in text and NAME in text
    figures = with_all(ran.figures[-1])
    given = figures["operators"][0]["inputs"][0]
    given["name"] = "\x1b[31m[bold]orders"
    given |= {"oldest": 3_600_000, "rowsKept": 7, "leavesBy": "d.t", "leavesAfter": 10_800_000, "late": 1234}
    given["columns"] = [{"name": "o.t", "watermark": 7_200_000, "newest": 9_000_000, "heldBy": "o"}]
    given["leaves"] = [{"time": "o.t", "column": "d.t", "postponeMs": 3_600_000}]
    other = figures["operators"][0]["inputs"][1]
    other["columns"] = [{"name": "d.t", "watermark": 3_600_000, "heldBy": "deliveries"}]
    (line,) = [line for line in as_text({"q": [figures]}).splitlines() if "[bold]orders" in line]
    assert "\x1b" not in line
    assert "1,234" in line and "1970-01-01 02:00:00   30 minutes" in line
    # Limit 00:00, state from 01:00, watermark 02:00, newest row 02:30.
    assert "·········█████████│█████" in line
    assert line.rstrip().endswith("deliveries, 2 hours to go")
    assert "! 5 rows wait <b>" in as_text({"q": [figures]})
    given["name"] = other["name"] = "orders"
    for width in (200, 110, 80):
        narrow = as_text({"q": [figures]}, width)
        assert max(map(len, narrow.splitlines())) <= width
        assert "waits for" in narrow and "deliveries, 2 hours to go" in narrow, width
    given["name"] = "orders of all the shops, " * 10
    assert "deliveries, 2 hours to go" in as_text({"q": [figures]}), "as long as it needs to be"
    assert sparkline([]) == "" and sparkline([0, 0]) == "▁▁"


def test_many_batches_in_bounded_memory(ran: Ran) -> None:
    last = with_all(ran.figures[-1])
    series, whole = Series(full=10, points=50), []
    for batch in range(1000):
        figures = json.loads(json.dumps(last)) | {"batch": batch, "phasesMs": {"triggerExecution": batch % 8}}
        hints = [f"{batch} rows wait <b>"] if batch >= 300 else []
        figures["operators"][0] |= {"rowsOut": 3, "hints": hints}
        figures["operators"][0]["inputs"][1]["rowsIn"] = 5
        whole.append(figures)
        series.add(figures)
    found = series.batches()
    assert len(found) <= 60 and found[-10:] == whole[-10:]
    assert sum(each.get("batches", 1) for each in found) == 1000
    assert [each["firstBatch"] for each in found[1:-10]] == [each["batch"] + 1 for each in found[:-11]]
    assert all(each["phasesMs"]["triggerExecution"] == 7 for each in found[:-11])

    def total(batches: list[Figures], *path: str) -> int:
        def at(of: Any, names: tuple[str, ...]) -> int:
            if isinstance(of, list):
                return sum(at(each, names) for each in of)
            return at(of[names[0]], names[1:]) if names else int(of)

        return at(batches, path)

    for path in (("inputs", "rowsIn"), ("inputs", "late"), ("rowsOut",), ("distances", "buckets", "pairs")):
        assert total(found, "operators", *path) == total(whole, "operators", *path) > 0, path
    late = [given["operators"][0]["inputs"][:1] for given in found]
    assert sum(total(each, "lateness", "buckets", "rows") for each in late) == 97 * 1000
    assert "999 rows wait &lt;b&gt;</td><td>700, 300 to 999<" in _hints(found)
    again = QueryBatches().add(found).batches()
    assert again[str(last["id"])] == found, "points stay as they are"


def test_each_input_and_each_join_has_its_own_hints() -> None:
    """The names of two inputs may differ only in a number, and the hints of two joins in nothing."""

    def batch(at: int) -> Figures:
        inputs = [{"name": name, "hints": [f"{at + 1} rows of {name} are late"]} for name in ("t1", "t2")]
        lower = {"operator": 1, "title": "lower", "hints": ["batches queue"], "inputs": inputs}
        upper = {"operator": 2, "title": "upper", "hints": ["batches queue"] if at == 5 else [], "inputs": []}
        return {"id": "q", "batch": at, "timestamp": at, "operators": [upper, lower]}

    series = Series(full=2, points=3)
    for at in range(12):
        series.add(batch(at))
    cells = re.findall(r"<td>(.*?)</td><td>(.*?)</td><td>(.*?)</td>", _hints(series.batches()))
    assert sorted(cells) == [
        ("1", "12 rows of t1 are late", "12, 0 to 11"),
        ("1", "12 rows of t2 are late", "12, 0 to 11"),
        ("1", "batches queue", "12, 0 to 11"),
        ("2", "batches queue", "1, 5 to 5"),
    ]


def test_in_a_terminal_of_ipython(ran: Ran, capsys: pytest.CaptureFixture[str]) -> None:
    sj.watch(ran.query)._ipython_display_()
    assert "1 inner interval join: " in capsys.readouterr().out


def test_in_a_notebook(ran: Ran) -> None:
    html = Page(sj.watch(ran.history)._repr_html_())
    assert [tag for tag, _ in html.elements] == ["h2", "div", "script"]
    assert html.texts["h2"] == [NAME]
    assert "StreamJoin.show" in html.texts["script"][0]


def test_the_page_of_a_driver(ran: Ran) -> None:
    asked = []

    class Driver(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            found = ran.figures if "query=" in self.path else ran.figures[-1:]
            self.wfile.write(json.dumps(found).encode())

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Driver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        assert read_location(f"{address}/", None, "test") == {str(ran.query.id): ran.figures}
        server.shutdown()
    assert asked == ["/streamjoin/figures/", f"/streamjoin/figures/?query={ran.query.id}"]
    for wrong in (address, "http://localhost:port", "http://[::1"):
        rejected("STREAMJOIN_NO_FIGURES.PAGE", partial(sj.watch, wrong), "the address of the Spark UI")


def test_in_a_shell_without_pyspark(ran: Ran, tmp_path: Path) -> None:
    def shell(*arguments: str, **more: Any) -> str:
        code = "import runpy, sys; sys.modules['pyspark'] = None; runpy.run_module('streamjoin', run_name='__main__')"
        return run([sys.executable, "-c", code, *arguments], **more)

    shown = shell("watch", str(ran.checkpoint), "--once", "--history", str(ran.history))
    assert "inner interval join" in shown and "waits for" in shown
    report = tmp_path / "report.html"
    assert shell("report", str(ran.history), str(report)).strip() == str(report)
    checked(report)
    assert "STREAMJOIN_NO_FIGURES.CHECKPOINT" in shell("watch", str(ran.checkpoint), expect=1)
    elsewhere = shell("report", str(ran.history), str(tmp_path / "nowhere" / "report.html"), expect=1)
    assert "No such file or directory" in elsewhere and "Traceback" not in elsewhere


def test_what_is_not_there(ran: Ran, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "report.html"
    (tmp_path / "empty").mkdir()
    rejected("STREAMJOIN_NO_FIGURES.LOCATION", lambda: sj.report(tmp_path / "empty", out), "spark.streamjoin.history")
    rejected("STREAMJOIN_NO_FIGURES.LOCATION", lambda: sj.report(tmp_path / "nothing", out), "spark.streamjoin.history")
    of_others = partial(sj.report, ran.checkpoint, out, history=tmp_path / "empty")
    rejected("STREAMJOIN_NO_FIGURES.HISTORY", of_others, "has no batch of")
    rejected("STREAMJOIN_NOT_A_STREAM.QUERY", lambda: sj.report(spark.range(1), out), "the path of a history")  # type: ignore[arg-type]
    rejected("STREAMJOIN_WRONG_ARGUMENT", lambda: sj.report(ran.query, None), "the file to write")  # type: ignore[arg-type]
    for interval in (0, float("nan"), True):
        rejected("STREAMJOIN_WRONG_ARGUMENT", partial(sj.watch, ran.query, interval=interval), "seconds")
    without = spark.readStream.format("rate").load().writeStream.format("noop")
    query = without.start(checkpointLocation=str(tmp_path / "without"))
    try:
        rejected("STREAMJOIN_NO_FIGURES.NO_BATCH", lambda: sj.report(query, out), "not finished a batch with a join")
    finally:
        query.stop()
    with monkeypatch.context() as patch:
        patch.setattr(_files, "_active_session", lambda: None)
        far = "s3a://bucket/history"
        rejected("STREAMJOIN_NO_FIGURES.NO_SESSION", lambda: sj.report(far, out), "is not on this machine")
    for name in [each for each in sys.modules if each.partition(".")[0] == "rich"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rich", None)
    rejected("STREAMJOIN_PACKAGE_MISSING", lambda: str(sj.watch(ran.query)), "pip install 'streamjoin[watch]'")
    assert not out.exists()


@needs_browser
def test_in_a_browser(ran: Ran, tmp_path: Path) -> None:
    """The pictures say what the figures say, of the last batch that had rows."""
    batches = [with_all(figures) for figures in ran.figures]
    late = batches[-1]["operators"][0]["inputs"][0]["lateness"]["buckets"]
    late.append({"fromMs": 10_000, "toMs": 20_000, "rows": 3})
    had_rows = [each for each in batches if any(given["rowsIn"] for given in each["operators"][0]["inputs"])]
    empty = json.loads(json.dumps(batches[-1])) | {"batch": batches[-1]["batch"] + 1}
    for given in empty["operators"][0]["inputs"]:
        given["rowsIn"] = 0
    file = tmp_path / "report.html"
    file.write_text(render_page({"q": [*batches, empty]}, None), encoding="utf-8")
    seen = Page(document(file.as_uri(), tmp_path / "profile"))
    by_class: dict[str, list[dict[str, str | None]]] = {}
    for _, attributes in seen.elements:
        for name in (attributes.get("class") or "").split():
            by_class.setdefault(name, []).append(attributes)
    assert seen.count("img") == 0
    (view,) = by_class["sj"]
    assert view["data-shown"] == str(had_rows[-1]["batch"])
    assert view["data-query"] == str(ran.query.id)
    totals = {each["data-total"]: each["data-value"] for _, each in seen.elements if "data-total" in each}
    rows = sum(given["rowsIn"] for each in batches for given in each["operators"][0]["inputs"])
    assert totals["batches"] == str(len(batches) + 1)
    assert totals["rowsIn"] == str(rows)
    given, other = had_rows[-1]["operators"][0]["inputs"]
    states = {each["data-input"]: each["data-rows"] for each in by_class["sj-state"]}
    assert states == {each["name"]: str(each["rowsKept"]) for each in (given, other) if each["rowsKept"]}
    watermarks = {each["data-column"]: each["data-ms"] for each in by_class["sj-watermark"]}
    assert watermarks == {each["columns"][0]["name"]: str(each["columns"][0]["watermark"]) for each in (given, other)}
    waits = {(each["data-waits"], each["data-held-by"]) for each in by_class["sj-wait"]}
    held = [each["columns"][0].get("heldBy", each["name"]) for each in (given, other)]
    assert waits == {(given["name"], held[1]), (other["name"], held[0])}
    # The line through an operator is at the watermark that decides.
    (line,) = by_class["sj-waits"]
    assert line["data-ms"] == str(min(each["columns"][0]["watermark"] for each in (given, other)))
    assert len(by_class["sj-hint"]) == 1
    series = {each["data-series"] for each in by_class["sj-series"]}
    assert series == {"watermarks", "rows", "state", "phases"}
    questions = {each["data-question"] for _, each in seen.elements if "data-question" in each}
    assert questions >= {"holds", "waits", "time", "lateness", "distances"}
    bounds = [each["data-ms"] for each in by_class["sj-bound"]]
    assert bounds == ["10000", "0", "3600000"]
    # 97 of 0 to 1 second in each batch, 3 beyond the delay in the last two.
    columns = {each["data-count"] for each in by_class["sj-column"] if "data-count" in each}
    assert {str(97 * (len(batches) + 1)), "6"} <= columns
    assert " ".join(seen.texts["td"]).count("10 seconds (current)") == 1
