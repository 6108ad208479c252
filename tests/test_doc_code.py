"""The code of each page in docs/ and of the page on PyPI runs, block by block, and prints what it says.

`test_wheel.py` has README.md, with its commands. A page is one program, in a working directory of its own. A ``text
output`` block holds what the block before it prints. A block that cannot run is marked ``python no-run``, followed by a
reason.
"""

import contextlib
import doctest
import importlib
import io
import json
import pkgutil
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import rows_and_time
from conftest import LONG, ROOT
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import streamjoin as sj

LONGEST = {"coming-from.md", "delta-joins.md", "monitoring.md"}
RECIPES = sorted((ROOT / "docs" / "recipes").glob("*.md"))
PAGES = [ROOT / "python" / "README.md", *sorted((ROOT / "docs").glob("*.md")), *RECIPES]
FENCE = re.compile(r"^```([a-z][^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"^[ \t>]+```(?:python|sql|text output)", re.MULTILINE)
ENDLESS = re.compile(r"\b(\w+)\.awaitTermination\(\)")
NO_RUN = "python no-run"

# These pages start from the first line; the others use these names.
FROM_NOTHING = {
    "README.md",
    "getting-started.md",
    "migration.md",
    "monitoring.md",
    "no-rows.md",
    *(page.name for page in RECIPES),
}
NAMES = """
import streamjoin as sj
from pyspark.sql import SparkSession, functions as F

spark = sj.configure(SparkSession.builder).getOrCreate()
orders = spark.readStream.schema("id INT, order_time TIMESTAMP").json("orders")
orders = orders.withWatermark("order_time", "10 seconds")
deliveries = spark.readStream.schema("order_id INT, delivery_time TIMESTAMP").json("deliveries")
deliveries = deliveries.withWatermark("delivery_time", "1 minute")
joined = orders.join(
    deliveries,
    F.expr("id = order_id AND delivery_time BETWEEN order_time AND order_time + INTERVAL 1 HOUR"),
    "left_outer",
)
"""

# These pages write their own input.
WITHOUT_INPUT = {"README.md", "getting-started.md", "monitoring.md", "no-rows.md", *(page.name for page in RECIPES)}


class Block(NamedTuple):
    """A block of code: its language, its text and the number of lines above the text."""

    language: str
    text: str
    above: int


def blocks(page: str) -> list[Block]:
    return [Block(each[1].strip(), each[2], page.count("\n", 0, each.start(2))) for each in FENCE.finditer(page)]


def runnable(page: Path) -> list[Block]:
    return [block for block in blocks(page.read_text(encoding="utf-8")) if block.language in ("python", "sql")]


@pytest.fixture
def working_directory(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make relative paths start at an empty folder, in Python and in the JVM, whose own directory is fixed."""
    jvm: Any = spark._jvm
    files = jvm.org.apache.hadoop.fs.FileSystem.getLocal(spark._jsc.hadoopConfiguration())
    before = (files.getWorkingDirectory(), jvm.System.getProperty("user.dir"))
    monkeypatch.chdir(tmp_path)
    files.setWorkingDirectory(jvm.org.apache.hadoop.fs.Path(tmp_path.as_uri()))
    jvm.System.setProperty("user.dir", str(tmp_path))
    yield tmp_path
    files.setWorkingDirectory(before[0])
    jvm.System.setProperty("user.dir", before[1])


@pytest.fixture
def session_as_before(spark: SparkSession) -> Iterator[None]:
    """Stop the queries that a page leaves running, and reset its settings and views."""
    before = dict(spark.conf.getAll)
    # As users have it, since pages show plans.
    spark.conf.set("spark.sql.codegen.wholeStage", "true")
    yield
    for query in spark.streams.active:
        query.stop()
    # Spark cannot list tables where it interprets expressions.
    spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")
    for table in spark.catalog.listTables():
        if table.isTemporary:
            spark.catalog.dropTempView(table.name)
    after = dict(spark.conf.getAll)
    for key in filter(spark.conf.isModifiable, after.keys() | before.keys()):
        if key not in before:
            spark.conf.unset(key)
        elif after.get(key) != before[key]:
            spark.conf.set(key, before[key])


def write_input() -> None:
    """Write the folders that `NAMES` reads."""
    for name, key, column, times in (
        ("orders", "id", "order_time", ("09:00", "09:10", "12:00")),
        ("deliveries", "order_id", "delivery_time", ("09:30", "11:00", "12:30")),
    ):
        rows = [{key: number, column: f"2026-01-01T{time}:00Z"} for number, time in enumerate(times)]
        Path(name).mkdir()
        Path(name, "0.json").write_text("\n".join(map(json.dumps, rows)))


def finish(query: StreamingQuery) -> None:
    """Replace ``query.awaitTermination()``: let an endless query read all of its input, and stop it."""
    query.processAllAvailable()
    if not query.awaitTermination(2):
        query.stop()


def run(block: Block, page: Path, names: dict[str, Any], spark: SparkSession) -> str:
    """Run a block; return what it prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        if block.language == "python":
            # Tracebacks show the line of the page.
            text = "\n" * block.above + ENDLESS.sub(r"finish(\1)", block.text)
            exec(compile(text, str(page), "exec"), names)
        else:
            for statement in filter(str.strip, block.text.split(";")):
                result = spark.sql(statement)
                if result.isStreaming:
                    assert sj.bounds(result).count() > 0, f"no join runs on streamjoin in\n{statement}"
    return printed.getvalue()


def run_page(page: Path, spark: SparkSession, expect: Callable[[Block, str], None]) -> None:
    """Run the blocks of a page, and pass each block of output to ``expect`` with what was printed."""
    names: dict[str, Any] = {"__name__": "__main__", "finish": finish}
    if page.name not in WITHOUT_INPUT:
        write_input()
    if page.name not in FROM_NOTHING:
        exec(NAMES, names)
    printed = ""
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.language == "text output":
            expect(block, printed)
        elif block.language in ("python", "sql"):
            printed = run(block, page, names, spark)
    for query in (each for each in names.values() if isinstance(each, StreamingQuery)):
        if query.isActive:
            query.processAllAvailable()
        assert query.exception() is None


@pytest.mark.skipif(not LONG, reason="a part of make test-long")
@pytest.mark.usefixtures("session_as_before")
def test_the_picture_of_the_readme_shows_what_both_joins_emit(spark: SparkSession, tmp_path: Path) -> None:
    steps = {engine: rows_and_time.run(spark, engine, tmp_path / engine) for engine in ("spark", "streamjoin")}
    emitted = {engine: sorted(row for step in each for row in step.emitted) for engine, each in steps.items()}
    assert emitted["spark"] == emitted["streamjoin"]
    assert [rows_and_time.time_of(steps[engine], "b") for engine in ("spark", "streamjoin")] == ["12:30", "10:30"]
    assert rows_and_time.drawn(steps) == rows_and_time.PICTURE.read_text(encoding="utf-8"), "docs/rows_and_time.py"


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


# The longest pages, and the recipes, are a part of `make test-long`.
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if runnable(page) and (LONG or (page not in RECIPES and page.name not in LONGEST))],
    ids=lambda page: page.name,
)
@pytest.mark.usefixtures("working_directory", "session_as_before")
def test_the_code_of_a_page(spark: SparkSession, page: Path) -> None:
    def expect(block: Block, printed: str) -> None:
        assert lines(printed) == lines(block.text), f"{page.name}, line {block.above}"

    run_page(page, spark, expect)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_is_found(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    found = blocks(text)
    assert not INDENTED.search(text), "a block in a list or quotation would not run"
    for block in found:
        if block.language.startswith(NO_RUN):
            assert block.language.removeprefix(NO_RUN).strip(), f"line {block.above}: no-run needs a reason"
        elif block.language.startswith(("python", "py", "sql", "text output")):
            assert block.language in ("python", "sql", "text output"), f"line {block.above}: {block.language}"
        if "text output" in block.language:
            before = found[found.index(block) - 1]
            assert before.language in ("python", "sql"), f"line {block.above}: output of what?"


def test_the_main_pages_have_code() -> None:
    with_code = {page.name for page in PAGES if runnable(page)}
    assert {"getting-started.md", "migration.md"} <= with_code


@pytest.mark.usefixtures("working_directory", "session_as_before")
def test_the_examples_of_the_docstrings(spark: SparkSession) -> None:
    def stream(key: str) -> Any:
        rows = spark.readStream.format("rate").load().selectExpr("value AS order_id", f"timestamp AS {key}")
        return rows.withWatermark(key, "10 seconds")

    events = spark.readStream.format("rate").load().selectExpr("value AS id", "timestamp AS time", "false AS is_bound")
    clicks = events.selectExpr("id AS customer_id", "'/' AS page")
    given = {
        "orders": stream("order_time"),
        "deliveries": stream("delivery_time"),
        "events": events,
        "clicks": clicks,
        "sj": sj,
        "spark": spark,
    }
    spark.conf.set("spark.streamjoin.arrangements", "arrangements")
    for name, columns, keys in (
        ("customers", ["value AS customer_id", "'Ada' AS name"], [["customer_id"]]),
        ("orders", ["value AS order_id", "value AS customer_id", "1 AS total"], [["order_id"], ["customer_id"]]),
    ):
        rows = spark.readStream.format("rate").load().selectExpr(*columns)
        sj.arrange(rows, name, keys).start(checkpointLocation=f"checkpoints/{name}")
    attempted = 0
    names = (each.name for each in pkgutil.walk_packages(sj.__path__, "streamjoin."))
    for name in (each for each in names if not each.endswith("__main__")):
        module = importlib.import_module(name)
        assert "doctest: +SKIP" not in Path(str(module.__file__)).read_text(encoding="utf-8")
        result = doctest.testmod(module, extraglobs=given)
        assert result.failed == 0, f"{name}: see the output above"
        attempted += result.attempted
    assert attempted >= 35
