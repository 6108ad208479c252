"""Start a job with the spark-submit of the installed PySpark, with streamjoin added as on any cluster."""

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pyspark

SPARK_HOME = Path(pyspark.__file__).parent
SETTINGS = Path(__file__).with_name("spark-defaults.conf")


def spark_submit(
    script: Path, *args: str, jars: Iterable[Path] = (), settings: Iterable[str] = (), plain: bool = False
) -> list[str]:
    """Return the command that runs a script with streamjoin.

    Args:
        script: the script.
        *args: its arguments.
        jars: more jars.
        settings: more settings, each as ``name=value``.
        plain: without streamjoin, with all other settings.
    """
    all_jars = [*map(str, jars), *([] if plain else [jar()])]
    more = ["spark.sql.extensions=", *settings] if plain else settings
    submit = [str(SPARK_HOME / "bin" / "spark-submit"), "--properties-file", str(SETTINGS)]
    submit += [part for setting in more for part in ("--conf", setting)]
    return [*submit, *(["--jars", ",".join(all_jars)] if all_jars else []), str(script), *args]


def jar() -> str:
    """Return the path of streamjoin's jar."""
    command = [sys.executable, "-m", "streamjoin", "jar"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def environment() -> dict[str, str]:
    """Return the environment for that command: this PySpark and this Python, whatever else is installed."""
    return os.environ | {"SPARK_HOME": str(SPARK_HOME), "PYSPARK_PYTHON": sys.executable}
