"""Start a job with the spark-submit of the installed PySpark, with streamjoin added as on any cluster."""

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pyspark

SPARK_HOME = Path(pyspark.__file__).parent
SETTINGS = Path(__file__).with_name("spark-defaults.conf")


def spark_submit(script: Path, *args: str, jars: Iterable[Path] = ()) -> list[str]:
    """Return the command that runs a script with streamjoin, and with more jars if given."""
    own = subprocess.run(
        [sys.executable, "-m", "streamjoin", "jar"], check=True, capture_output=True, text=True
    ).stdout.strip()
    all_jars = ",".join([own, *map(str, jars)])
    submit = str(SPARK_HOME / "bin" / "spark-submit")
    return [submit, "--properties-file", str(SETTINGS), "--jars", all_jars, str(script), *args]


def environment() -> dict[str, str]:
    """Return the environment for that command: this PySpark and this Python, whatever else is installed."""
    return os.environ | {"SPARK_HOME": str(SPARK_HOME), "PYSPARK_PYTHON": sys.executable}
