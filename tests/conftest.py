"""What all tests share: one Spark session with the extension, and small separate processes."""

import contextlib
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from arranged_shop import Shop
from comet import SETTINGS as COMET
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession
from queries import settings
from servers.jdbc_drivers import MARIADB, POSTGRES, driver_jar
from servers.mariadb import MariaDb, is_installed
from servers.ports import free_port
from servers.postgres import Postgres, binaries
from upserts import Kept

import streamjoin as sj

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".tools"

# Some tests use the Python code of the build, of the benchmarks and of the examples.
sys.path[:0] = [str(ROOT / "docs"), *(str(ROOT / "project" / folder) for folder in ("lint", "locks", "release"))]
sys.path += [str(ROOT / folder) for folder in ("benchmarks", "examples", "examples/demo")]
from spark_lines import spark_lines  # noqa: E402

# The lines of Spark, and the one that the tests run on.
LINES = {line.name: line for line in spark_lines()}
LINE = ".".join(pyspark.__version__.split(".")[:2])

Run = Callable[..., str]

# `make test-long`: nothing is left out.
LONG = "STREAMJOIN_SEEDS" in os.environ

# `make test-line`: the default line of Spark runs all tests, this one only what may differ.
OTHER_LINE = os.environ.get("STREAMJOIN_TESTS") == "line" and not LONG

# Seconds after which a run counts as hanging: `make test-long` keeps a machine busy for hours.
PATIENCE = 1800 if LONG else 600


def seeds(default: int) -> range:
    """Return the seeds of random cases; `STREAMJOIN_SEEDS` and `STREAMJOIN_FIRST_SEED` replace the default."""
    first = int(os.environ.get("STREAMJOIN_FIRST_SEED", "0"))
    return range(first, first + int(os.environ.get("STREAMJOIN_SEEDS", default)))


def printed_seed() -> int:
    """Return `STREAMJOIN_SEED`, or else a new seed each time, which is shown if the test fails."""
    seed = int(os.environ.get("STREAMJOIN_SEED", random.randrange(1_000_000)))
    print(f"STREAMJOIN_SEED={seed}")
    return seed


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("streamjoin tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        # Hundreds of tests share many of their plans.
        .config("spark.sql.codegen.cache.maxEntries", "5000")
        # Small batches spend more time on generating and compiling whole stages than on running
        # them. The pages of test_doc_code.py and all programs keep Spark's default.
        .config("spark.sql.codegen.wholeStage", "false")
        # The same is true of the code of expressions, which takes a fifth of the time.
        .config("spark.sql.codegen.factoryMode", "FALLBACK" if LONG else "NO_CODEGEN")
        # With isolation, each query has its own class loader and reloads all classes of its tasks.
        .config("spark.sql.artifact.isolation.enabled", "false")
        .config("spark.sql.ui.explainMode", "simple")
        .config("spark.sql.streaming.pollingDelay", "1ms")
        # Maintenance of the state stores would only compete with the tiny batches.
        .config("spark.sql.streaming.stateStore.maintenanceInterval", "1h")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
    )
    for key, value in COMET.items():
        builder.config(key, value)
    session = sj.configure(builder).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    # Each query copies Hadoop's settings, and each batch sends them to its tasks: two thousand
    # defaults.
    session.sparkContext._jsc.hadoopConfiguration().clear()
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def no_query_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Stop the queries that a test leaves running."""
    session = request.getfixturevalue("spark") if "spark" in request.fixturenames else None
    yield
    for query in session.streams.active if session else ():
        query.stop()


@pytest.fixture
def watermark_before_filter(spark: SparkSession) -> Iterator[None]:
    """Rows that the query filters after ``withWatermark`` move the watermark too."""
    with settings(spark, {"spark.streamjoin.watermarkBeforeFilter": "true"}):
        yield


def without_spark() -> dict[str, str]:
    """Return the environment without settings for Spark."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))}


def run(
    command: list[str], environment: dict[str, str] | None = None, expect: int = 0, timeout: float = PATIENCE
) -> str:
    """Run a command with a clean Spark environment; return its standard output, or fail with all of its output."""
    clean = without_spark()
    clean.pop("PYTHONPATH", None)
    env = clean | (environment or {})
    try:
        done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired as late:
        written = b"\n".join(each for each in (late.stdout, late.stderr) if each).decode(errors="replace")
        pytest.fail(f"{command} still ran after {timeout} s:\n{written}")
    assert done.returncode == expect, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout if expect == 0 else done.stdout + done.stderr


def together(programs: Iterable[list[str]], submit: Callable[..., list[str]] | None = None, **more: Any) -> list[str]:
    """Run programs one after the other in one process, by default of this Python; return the output of each."""
    script, argument = ROOT / "tests" / "jobs" / "programs.py", json.dumps(list(programs))
    command = submit(script, argument) if submit else [sys.executable, str(script), argument]
    return [output.split("\n", 1)[1] for output in re.split("^=== ", run(command, **more), flags=re.MULTILINE)[1:]]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a master and two workers that all tests share; yield the master's URL."""
    with running_cluster(tmp_path_factory.mktemp("cluster")) as master:
        yield master


@contextlib.contextmanager
def running_cluster(folder: Path) -> Iterator[str]:
    """Run a master and two workers, each at an address of its own on this machine; yield the master's URL.

    Spark speculates a task only on another host, and the workers of a ``local-cluster`` share one.
    """
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    commands = [["master.Master", "--host", "127.0.0.1", "--port", str(port)]]
    for host in ("127.0.0.2", "127.0.0.3"):
        options = ["--host", host, "--cores", "1", "--memory", "1g", "--work-dir", str(folder / host)]
        commands.append(["worker.Worker", *options, master])
    start = Path(pyspark.__file__).parent / "bin" / "spark-class"
    with contextlib.ExitStack() as running, (folder / "log").open("wb") as log:
        for main, *options in commands:
            process = subprocess.Popen(
                [str(start), f"org.apache.spark.deploy.{main}", "--webui-port", "0", *options],
                env=without_spark() | {"SPARK_DAEMON_MEMORY": "512m"},
                stdout=log,
                stderr=log,
            )
            running.enter_context(process)
            running.callback(process.terminate)
        yield master


@pytest.fixture
def python(tmp_path: Path) -> Run:
    """Return a function that runs a text as a Python program and returns its output."""

    def run_text(text: str, **environment: str) -> str:
        script = tmp_path / "script.py"
        script.write_text(text)
        return run([sys.executable, str(script)], environment)

    return run_text


def rejected(condition: str, call: Callable[[], object], text: str = "") -> None:
    """Expect one of our errors with this text and nothing of py4j, raised at once or as the cause of a failed query."""
    with pytest.raises((sj.StreamJoinError, AnalysisException, StreamingQueryException)) as caught:
        call()
    error: Any = caught.value
    assert f"[{condition}] " in str(error), str(error)
    assert isinstance(error, StreamingQueryException) or error.getCondition() == condition
    assert text in str(error), str(error)
    assert "JavaPackage" not in str(error)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    if binaries() is None:
        pytest.skip("PostgreSQL is not installed (Debian's package `postgresql`)")
    with Postgres() as running:
        yield running


@pytest.fixture
def database(postgres: Postgres, spark: SparkSession) -> Postgres:
    spark.sql(f"ADD JAR '{driver_jar(TOOLS, POSTGRES)}'")
    postgres.query("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return postgres


@pytest.fixture
def kept(shop: Shop, database: Postgres) -> Kept:
    """Return the query that keeps the table ``t`` current; the test creates the table."""
    return Kept(shop, database.options("t"))


@pytest.fixture(scope="session")
def mariadb(spark: SparkSession) -> Iterator[MariaDb]:
    if not is_installed():
        pytest.skip("MariaDB is not installed (Debian's package `mariadb-server`)")
    spark.sql(f"ADD JAR '{driver_jar(TOOLS, MARIADB)}'")
    with MariaDb() as running:
        yield running


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(spark, tmp_path)
    with shop.open():
        yield shop
