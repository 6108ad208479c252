"""The wheel alone: built, installed into an empty environment, and used by a job under `spark-submit`."""

import json
import sys
import venv
from pathlib import Path
from zipfile import ZipFile

import pyspark
import pytest
from conftest import LINE, LONG, ROOT, run

import streamjoin as sj

JOB = """
import sys
from datetime import timedelta

from pyspark.sql import SparkSession

import streamjoin as sj

folder = sys.argv[1]
spark = sj.configure(SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")).getOrCreate()
spark.conf.set("spark.sql.shuffle.partitions", "2")


def stream(name, columns, time):
    return spark.readStream.schema(columns).json(f"{folder}/{name}").withWatermark(time, "10 seconds")


orders = stream("orders", "id INT, ordered TIMESTAMP", "ordered")
deliveries = stream("deliveries", "order_id INT, delivered TIMESTAMP", "delivered")
joined = orders.join(
    deliveries,
    (orders.id == deliveries.order_id)
    & deliveries.delivered.between(orders.ordered, orders.ordered + timedelta(hours=1)),
    "left_outer",
).select("id", "order_id")
query = (
    joined.writeStream.format("json")
    .option("checkpointLocation", f"{folder}/checkpoint")
    .trigger(availableNow=True)
    .start(f"{folder}/out")
)
query.awaitTermination()
query.explain()
"""

HOURS = ["2026-01-01T00:00:00Z", "2026-01-01T00:30:00Z", "2026-01-01T09:00:00Z"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), "python"]
    run(build)
    (found,) = folder.iterdir()
    return found


def test_what_is_in_the_wheel(wheel: Path) -> None:
    assert wheel.name == f"streamjoin-{sj.__version__}-py3-none-any.whl"
    with ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(f"streamjoin-{sj.__version__}.dist-info/METADATA").decode().splitlines()
    jars = {f"streamjoin/jars/{jar.name}" for jar in (ROOT / "python/src/streamjoin/jars").iterdir()}
    assert {name for name in names if name.endswith(".jar")} == jars
    assert f"streamjoin/jars/streamjoin-spark{LINE}_2.13-{sj.__version__}.jar" in jars
    assert "Requires-Dist: pyspark<4.4,>=4.1.0; extra == 'spark'" in metadata
    assert {"streamjoin/py.typed", "streamjoin/__init__.pyi", "streamjoin/joins/__init__.py"} <= names
    assert f"Version: {(ROOT / 'VERSION').read_text().strip()}" in metadata
    needs = [line for line in metadata if line.startswith("Requires-Dist: ")]
    assert needs, "the extras are there"
    assert all("extra == " in line for line in needs), "clusters bring their own Spark"


def lend_spark(venv_folder: Path) -> None:
    """Link the PySpark of this environment into the new one, as if installed there: unpacking it takes longest."""
    (packages,) = venv_folder.glob("lib/*/site-packages")
    for name in ("pyspark", "py4j"):
        for part in Path(pyspark.__file__).parents[1].glob(f"{name}*"):
            (packages / part.name).symlink_to(part)
    for script in Path(sys.executable).parent.glob("*spark*"):
        (venv_folder / "bin" / script.name).symlink_to(script)


def test_a_job_under_spark_submit(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    bin_folder = tmp_path / "venv" / "bin"
    python = str(bin_folder / "python")
    if not LONG:
        lend_spark(tmp_path / "venv")
    # The newest PySpark that the extra allows may be of a line whose jar is not built here.
    run([python, "-m", "pip", "install", "--quiet", f"{wheel}[spark]", f"pyspark=={pyspark.__version__}"])
    installed = run([python, "-m", "pip", "list", "--format=json"])
    assert "duckdb" not in {package["name"] for package in json.loads(installed)}
    jar = run([python, "-m", "streamjoin", "jar"]).strip()
    assert jar.startswith(str(tmp_path / "venv"))

    rows = {
        "orders": [{"id": 1, "ordered": HOURS[0]}, {"id": 2, "ordered": HOURS[0]}, {"id": 3, "ordered": HOURS[2]}],
        "deliveries": [{"order_id": 1, "delivered": HOURS[1]}, {"order_id": 9, "delivered": HOURS[2]}],
    }
    for name, lines in rows.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.json").write_text("\n".join(map(json.dumps, lines)))
    job = tmp_path / "job.py"
    job.write_text(JOB)
    submit = [str(bin_folder / "spark-submit"), "--jars", jar, str(job), str(tmp_path)]
    plan = run(submit, {"PYSPARK_PYTHON": python})

    assert "StreamIntervalJoin" in plan
    assert "StreamingSymmetricHashJoin" not in plan
    out = [json.loads(line) for file in (tmp_path / "out").glob("*.json") for line in file.read_text().splitlines()]
    # Order 3 is still in state: its hour has not passed.
    assert sorted(out, key=lambda row: row["id"]) == [{"id": 1, "order_id": 1}, {"id": 2}]


def test_the_wheel_has_the_licence(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/licenses/LICENSE"))
        assert archive.read(name) == (ROOT / "LICENSE").read_bytes()
