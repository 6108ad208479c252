"""1,000 changes a batch into tables of several sizes, by their key: ``python benchmarks/upserts.py [sizes]``.

Each database runs on this machine. Its table is filled by the database itself and has an index on the key. Then a query
changes 1,000 rows a batch. It prints medians: of the transaction that applies the changes, from the log, and in
parentheses of the whole batch (``addBatch``: Spark's jobs and the staging table, too).
"""

import json
import os
import random
import re
import statistics
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import streamjoin as sj

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from servers.jdbc_drivers import H2, MARIADB, POSTGRES, driver_jar  # noqa: E402
from servers.mariadb import MariaDb, is_installed  # noqa: E402
from servers.postgres import Postgres, binaries  # noqa: E402

SIZES = (1_000, 100_000, 1_000_000)
CHANGES = 1_000
BATCHES = 9
WARM = 4

# Creates a table of so many rows.
FILL = {
    "PostgreSQL": "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(20), v INT);"
    "INSERT INTO t SELECT n, 'x', n FROM generate_series(0, {rows} - 1) n; ANALYZE t",
    "MariaDB": "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(20), v INT);"
    "INSERT INTO t SELECT seq, 'x', seq FROM seq_0_to_{rows} WHERE seq < {rows}",
    "H2": 'CREATE TABLE t ("a" INT PRIMARY KEY, "b" VARCHAR(20), "v" INT);'
    "INSERT INTO t SELECT x, 'x', x FROM SYSTEM_RANGE(0, {rows} - 1)",
}


def main() -> None:
    """Measure all databases that this machine has."""
    sizes = [int(size.replace("_", "")) for size in sys.argv[1:]] or list(SIZES)
    jars = [driver_jar(ROOT / ".tools", artifact) for artifact in (POSTGRES, MARIADB, H2)]
    builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")
    builder = builder.config("spark.driver.extraClassPath", os.pathsep.join(map(str, jars)))
    builder = builder.config("spark.ui.enabled", "false").config("spark.driver.memory", "4g")
    spark = sj.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    log = log_of_applied(spark)
    print(f"{'':<12}" + "".join(f"{size:>18,} rows" for size in sizes))
    with ExitStack() as running:
        for name, database in databases(spark, running).items():
            print(f"{name:<12}", end="", flush=True)
            for size in sizes:
                applied, batch = measure(spark, log, name, database, size)
                print(f"{f'{applied:,} ({batch:,}) ms':>23}", end="", flush=True)
            print()


Database = tuple[Callable[[str], Any], dict[str, str]]


def databases(spark: SparkSession, running: ExitStack) -> dict[str, Database]:
    """Start the servers; each has a function that runs SQL, and the options of its table ``t``."""
    found: dict[str, Database] = {}
    if binaries() is not None:
        postgres = running.enter_context(Postgres())
        found["PostgreSQL"] = (postgres.query, postgres.options("t"))
    if is_installed():
        mariadb = running.enter_context(MariaDb())
        found["MariaDB"] = (mariadb.query, mariadb.options("t"))
    url = "jdbc:h2:mem:upserts;DB_CLOSE_DELAY=-1"
    jvm: Any = spark._jvm

    def in_jvm(sql: str) -> None:
        connection = jvm.java.sql.DriverManager.getConnection(url)
        for statement in sql.split(";"):
            connection.createStatement().execute(statement)
        connection.close()

    found["H2"] = (in_jvm, {"url": url, "dbtable": "t", "driver": "org.h2.Driver"})
    return found


def log_of_applied(spark: SparkSession) -> Any:
    """Copy the log of upserts to a text in the JVM; return the text."""
    jvm: Any = spark._jvm
    log4j = jvm.org.apache.logging.log4j
    text = jvm.java.io.StringWriter()
    layout = log4j.core.layout.PatternLayout.createDefaultLayout()
    appender = log4j.core.appender.WriterAppender.createAppender(layout, None, text, "applied", False, True)
    appender.start()
    root = log4j.LogManager.getRootLogger()
    root.addAppender(appender)
    log4j.core.config.Configurator.setLevel("org.apache.spark.sql.streamjoin.upsert.JdbcTarget", log4j.Level.INFO)
    return text


def measure(spark: SparkSession, log: Any, name: str, database: Database, size: int) -> tuple[int, int]:
    """Return the medians of the milliseconds of the transaction and of the whole batch, once warm."""
    query, options = database
    query("DROP TABLE IF EXISTS t")
    query(FILL[name].format(rows=size))
    chance = random.Random(size)
    with tempfile.TemporaryDirectory() as folder:
        stream = spark.readStream.schema("a INT, b STRING, v INT, _diff INT").option("maxFilesPerTrigger", 1)
        values: dict[int, int] = {}
        (Path(folder) / "changes").mkdir()
        for batch in range(BATCHES):
            rows = []
            for a in chance.sample(range(size), CHANGES):
                rows += [{"a": a, "b": "x", "v": values.get(a, a), "_diff": -1}]
                values[a] = batch
                rows += [{"a": a, "b": "x", "v": batch, "_diff": 1}]
            file = Path(folder) / "changes" / f"{batch}.json"
            file.write_text("".join(json.dumps(row) + "\n" for row in rows))
            os.utime(file, (batch + 1, batch + 1))
        writer = sj.upsert(stream.json(f"{folder}/changes"), options, "a").trigger(availableNow=True)
        running = writer.start(checkpointLocation=f"{folder}/checkpoint")
        running.awaitTermination()
        times: list[int] = [
            each["durationMs"]["addBatch"] for each in running.recentProgress if each["numInputRows"] > 0
        ]
        applied = [int(ms) for ms in re.findall(r"Applied \d+ changes to t in (\d+) ms", log.toString())][-BATCHES:]
        assert len(times) == len(applied) == BATCHES, "each file is a batch"
        return round(statistics.median(applied[WARM:])), round(statistics.median(times[WARM:]))


if __name__ == "__main__":
    main()
