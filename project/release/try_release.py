"""Tries the output of `make release`: ``python project/release/try_release.py [line ...]``.

First what happens to it before it is published (`rehearse.py`), then what a stranger does with it. For each line of
Spark an empty environment gets PySpark and the wheel, and runs a join of two streams; then the same join runs by
``spark-submit --packages`` from the folder of the release as a Maven repository, without the wheel.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from publisher import PUBLISHER
from rehearse import rehearse
from spark_lines import spark_lines

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
VERSION = (ROOT / "VERSION").read_text().strip()
EXTENSION = "org.apache.spark.sql.streamjoin.StreamJoinExtensions"

# Two pairs within the hour, and an order whose delivery arrives too late.
JOB = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
if sys.argv[1] == "wheel":
    import streamjoin as sj
    builder = sj.configure(builder)
spark = builder.config("spark.sql.shuffle.partitions", 2).config("spark.log.level", "ERROR").getOrCreate()
folder = Path(sys.argv[2])
for name, rows in (
    ("orders", [(1, "10:00"), (2, "10:00"), (3, "10:00"), (9, "18:00")]),
    ("deliveries", [(1, "10:59"), (2, "10:01"), (3, "11:01"), (9, "18:00")]),
):
    (folder / name).mkdir()
    lines = ['{"id": %d, "time": "2026-01-01 %s:00"}' % row for row in rows]
    (folder / name / "rows.json").write_text("\\n".join(lines))

def stream(name, columns):
    return spark.readStream.schema("id INT, time TIMESTAMP").json(str(folder / name)).toDF(*columns)

orders = stream("orders", ["id", "ordered"]).withWatermark("ordered", "10 seconds")
deliveries = stream("deliveries", ["order_id", "delivered"]).withWatermark("delivered", "10 seconds")
condition = expr("id = order_id AND delivered BETWEEN ordered AND ordered + INTERVAL 1 HOUR")
joined = orders.join(deliveries, condition, "left_outer").select("id", "order_id")
query = joined.writeStream.format("memory").queryName("pairs").trigger(availableNow=True).start()
query.awaitTermination()
print("RESULT", spark.version, query.lastProgress["stateOperators"][0]["operatorName"],
      sorted((row[0], row[1] or 0) for row in spark.table("pairs").collect()))
"""
PAIRS = "[(1, 1), (2, 2), (3, 0), (9, 9)]"


def main(lines: list[str]) -> None:
    """Rehearse the release, then try each line."""
    if not (DIST / "SHA256SUMS").exists():
        sys.exit("dist/ has no release: make release")
    versions = {line.name: line.version for line in spark_lines()}
    tried = lines or list(versions)
    rehearse(DIST, tried)
    for line in tried:
        with tempfile.TemporaryDirectory(prefix="streamjoin-release-") as folder:
            try_line(line, versions[line], Path(folder))


def try_line(line: str, version: str, folder: Path) -> None:
    """Run the join on a line, with the wheel and with the Maven artifact."""
    (wheel,) = DIST.glob("*.whl")
    job = folder / "job.py"
    job.write_text(JOB)
    started = time.monotonic()
    run(sys.executable, "-m", "venv", folder / "venv")
    python = folder / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", f"pyspark=={version}", wheel)
    installed = time.monotonic()
    report(version, "wheel", run(python, job, "wheel", new(folder / "wheel"), python=python))
    joined = time.monotonic()
    print(f"{version}: installed in {installed - started:.0f} s, joined in {joined - installed:.0f} s", flush=True)
    run(python, "-m", "pip", "uninstall", "--quiet", "--yes", "streamjoin")
    package = f"{PUBLISHER['group']}:streamjoin-spark{line}_2.13:{VERSION}"
    options = ["--packages", package, "--repositories", (DIST / "maven").as_uri()]
    options += ["--conf", f"spark.jars.ivy={folder / 'ivy'}", "--conf", f"spark.sql.extensions={EXTENSION}"]
    submit = folder / "venv" / "bin" / "spark-submit"
    report(version, "packages", run(submit, *options, job, "packages", new(folder / "packages"), python=python))


def report(version: str, way: str, output: str) -> None:
    """Print the result of the job if our join has run."""
    (result,) = [line for line in output.splitlines() if line.startswith("RESULT")]
    assert result == f"RESULT {version} streamIntervalJoin {PAIRS}", result
    print(f"{version}, {way}: {result}", flush=True)


def new(folder: Path) -> Path:
    """Create a folder."""
    folder.mkdir()
    return folder


def run(*command: str | Path, python: Path | None = None) -> str:
    """Run a command outside of the checkout and return its output."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYTHON"))}
    if python:
        environment |= {"PATH": f"{python.parent}:{environment['PATH']}", "PYSPARK_PYTHON": str(python)}
    result = subprocess.run(
        [str(part) for part in command],
        env=environment,
        cwd=tempfile.gettempdir(),
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stdout}\n{result.stderr}")
    return result.stdout


if __name__ == "__main__":
    main(sys.argv[1:])
