"""`examples/pipeline`: a join in SQL alone, run by spark-pipelines."""

import sys
from pathlib import Path
from shutil import copytree

import pyarrow.parquet as pq
import pytest
from conftest import LONG, ROOT, run

from streamjoin._packaging.jars import jar_path
from streamjoin._spark.extension import EXTENSION

BIN = Path(sys.executable).parent
# It finds `python3` and `spark-submit` on the PATH.
PROGRAM = "import os, subprocess, sys; os.chdir(sys.argv[1]); sys.exit(subprocess.call(sys.argv[2:]))"


@pytest.mark.skipif(not LONG, reason="a part of make test-long")
def test_the_pipeline(tmp_path: Path) -> None:
    pipeline = tmp_path / "pipeline"
    copytree(ROOT / "examples" / "pipeline", pipeline)
    copytree(ROOT / "examples" / "data", tmp_path / "data")
    spec = pipeline / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("file:///tmp/streamjoin-pipeline", (tmp_path / "storage").as_uri()))
    settings = {
        "spark.sql.extensions": EXTENSION,
        "spark.driver.extraClassPath": str(jar_path()),
        "spark.ui.enabled": "false",
    }
    conf = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    command = [str(BIN / "spark-pipelines"), "run", "--remote", "local[1]", *conf]
    run([sys.executable, "-c", PROGRAM, str(pipeline), *command], {"PYSPARK_PYTHON": sys.executable})
    delivered = pq.read_table(pipeline / "spark-warehouse" / "delivered")
    assert sorted(delivered["id"].to_pylist()) == [1, 3]
