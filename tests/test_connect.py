"""Spark Connect: each function has the same result in a classic session, over Connect, and from its pure client."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyspark
import pytest
from conftest import LONG, ROOT, Run, run, without_spark
from servers.ports import free_port

from streamjoin._packaging.jars import jar_path

JOBS = ROOT / "tests" / "jobs"

# An environment with pyspark-client, which has neither py4j nor a JVM; `make` makes it.
CLIENT = ROOT / f".venv-client-{'.'.join(pyspark.__version__.split('.')[:2])}" / "bin" / "python"


# Python functions run in workers, which have the same version and the same packages.
WORKERS = {"PYSPARK_PYTHON": sys.executable}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a Spark Connect server with the extension; yield its address."""
    assert CLIENT.exists(), f"run `make {CLIENT.parent.parent.name}/.installed` first"
    folder = tmp_path_factory.mktemp("server")
    port = free_port()
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.sql.extensions": "org.apache.spark.sql.streamjoin.StreamJoinExtensions",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    if not LONG:  # generating code takes most of the time of small batches
        settings |= {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--jars", str(jar_path())]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "spark-internal"], env=without_spark() | WORKERS, cwd=folder, stdout=out, stderr=out
        )
        try:
            end = time.monotonic() + 120
            while "Spark Connect server started" not in log.read_text():
                assert process.poll() is None and time.monotonic() < end, log.read_text()[-5000:]
                time.sleep(0.2)
            yield f"sc://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()


def test_every_function_in_each_kind_of_session(server: str, tmp_path: Path) -> None:
    """The file has the output of a classic session, which was read and found right."""
    kinds = {server: str(CLIENT)}
    if LONG:  # most other tests use a classic session
        kinds |= {"classic": sys.executable, "local": sys.executable}

    def called(kind: str) -> str:
        folder = tmp_path / str(list(kinds).index(kind))
        return run([kinds[kind], str(JOBS / "every_function.py"), kind, str(folder), "1" if LONG else "2"], WORKERS)

    expected = (JOBS / "every_function.txt").read_text().splitlines()
    with ThreadPoolExecutor(2) as two:
        for kind, found in zip(kinds, two.map(called, kinds), strict=True):
            lines = found.splitlines()
            not_run = {line.removesuffix("not run") for line in lines if line.endswith(": not run")}
            columns = [line[: line.find(": [") + 2] for line in expected]
            assert lines == [
                f"{start}not run" if start in not_run else line for start, line in zip(columns, expected, strict=True)
            ], kind
    functions = set(re.findall(r"\bsj\.([a-z_]+)\(", (JOBS / "every_function.py").read_text()))
    stub = (ROOT / "python" / "src" / "streamjoin" / "__init__.pyi").read_text()
    assert functions == set(re.findall(r" as ([a-z][a-z_]*)$", stub, re.MULTILINE))


@pytest.mark.skipif(not LONG, reason="a part of make test-long; restarts within one kind are in test_restart.py")
def test_a_checkpoint_continues_in_another_kind_of_session(server: str, tmp_path: Path) -> None:
    rounds = [
        (server, 10, []),
        ("classic", 12, [(10, True)]),
        (server, 14, [(10, True), (12, True)]),
        ("classic", 18, [(10, True), (12, True), (14, True)]),
    ]
    for kind, hour, expected in rounds:
        for name, column, minute in (("o", "t", 0), ("d", "u", 30)):
            (tmp_path / name).mkdir(exist_ok=True)
            row = f'{{"id": {hour}, "{column}": "2026-01-01T{hour}:{minute:02}:00Z"}}\n'
            (tmp_path / name / f"{hour}.json").write_text(row)
        python = sys.executable if kind == "classic" else str(CLIENT)
        out = run([python, str(JOBS / "handed_over.py"), kind, str(tmp_path)])
        assert out.splitlines()[-1] == str(expected), kind


@pytest.mark.skipif(not LONG, reason="a part of make test-long; SharedServerSuite has two sessions")
def test_two_users_of_one_server_are_kept_apart(server: str, tmp_path: Path) -> None:
    out = run([str(CLIENT), str(JOBS / "two_users.py"), server, str(tmp_path)], WORKERS)
    assert out.strip().splitlines() == (JOBS / "two_users.txt").read_text().splitlines()


def test_the_pure_client_has_no_py4j() -> None:
    modules = "('py4j', 'pyspark.core', 'streamjoin')"
    found = f"import importlib.util as u; print([u.find_spec(name) is not None for name in {modules}])"
    assert run([str(CLIENT), "-c", found]).strip() == "[False, False, True]"


def test_the_pure_client_cannot_configure_a_session() -> None:
    program = "import streamjoin as sj; from pyspark.sql import SparkSession; sj.configure(SparkSession.builder)"
    assert "[STREAMJOIN_SPARK_CONNECT]" in run([str(CLIENT), "-c", program], expect=1)


SERVER_WITHOUT_THE_EXTENSION = """
import streamjoin as sj
from pyspark.sql import SparkSession
from pyspark.errors import AnalysisException

spark = SparkSession.builder.remote("local[2]").getOrCreate()
rate = spark.readStream.format("rate").load()
marked = rate.withWatermark("timestamp", "1 second")
for call in (
    lambda: sj.check(spark),
    lambda: sj.bounds(marked.join(marked, "value")),
    lambda: sj.join(marked, marked, "value", within="1 second"),
    lambda: sj.idle_after(marked, "1 minute"),
    lambda: sj.arrange(rate, "/tmp/x", keys="value"),
    lambda: sj.delta_join({"a": "a", "b": "b"}, "a.id = b.id", spark=spark),
    lambda: sj.arrangement("a", spark=spark),
):
    try:
        call()
    except sj.StreamJoinError as error:
        print(error.getCondition(), "spark.sql.extensions" in str(error))
print(sj.join(spark.range(3), spark.range(2), "id").count())
"""


@pytest.mark.skipif(not LONG, reason="a part of make test-long, as it starts a server")
def test_a_server_without_the_extension(python: Run) -> None:
    out = python(SERVER_WITHOUT_THE_EXTENSION).splitlines()
    assert out == ["STREAMJOIN_JAR_MISSING.SERVER True"] * 7 + ["2"]
