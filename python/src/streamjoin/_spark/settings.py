"""Settings that reach Spark from outside the program: spark-submit, ``PYSPARK_SUBMIT_ARGS``, spark-defaults.conf.

A list in the builder replaces the same list from outside, so adding to one requires knowing them all.
"""

import argparse
import os
import re
import shlex
from collections.abc import Iterable
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.find_spark_home import _find_spark_home

JARS = "spark.jars"
EXTENSIONS = "spark.sql.extensions"
_SUBMIT_ARGS = "PYSPARK_SUBMIT_ARGS"
_PROPERTY = re.compile(r"^\s*([^#!\s=:][^\s=:]*)\s*[\s=:]\s*(.*?)\s*$")


def merge_lists(*lists: str | None) -> str:
    """Return comma-separated lists as one, in order, each entry once; None counts as empty."""
    entries = (entry.strip() for each in lists if each for entry in each.split(","))
    return ",".join(dict.fromkeys(entry for entry in entries if entry))


def is_jvm_running() -> bool:
    """Tell whether this process is connected to a JVM: it runs under spark-submit, or had a session before."""
    return SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ


def initial_settings() -> dict[str, str]:
    """Return the settings that a session built now would start from, before those of its builder."""
    if is_jvm_running():
        SparkContext._ensure_initialized()  # under spark-submit this connects and starts nothing
        return dict(SparkConf(loadDefaults=True).getAll())
    submit = _submit_arguments()
    return _spark_defaults(submit.properties_file) | submit.conf


def add_jars_to_launch(jars: str) -> None:
    """Pass these jars to the JVM that PySpark will start.

    Not through ``spark.jars`` of the builder: that would replace, in the SparkContext, the list to which Spark
    has by then added what ``spark.jars.packages`` resolved to, and the executors would miss those.
    """
    words = _submit_words()
    os.environ[_SUBMIT_ARGS] = shlex.join([*words[:-1], "--jars", jars, *words[-1:]])


class _Submit(argparse.Namespace):
    properties_file: str | None
    conf: dict[str, str]


def _submit_words() -> list[str]:
    return shlex.split(os.environ.get(_SUBMIT_ARGS, "pyspark-shell"))


def _submit_arguments() -> _Submit:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--jars")
    parser.add_argument("--properties-file")
    parser.add_argument("--conf", "-c", action="append", default=[])
    found, _ = parser.parse_known_args(_submit_words())
    conf = _to_dict(setting.partition("=")[::2] for setting in found.conf)
    if found.jars:
        conf[JARS] = found.jars
    return _Submit(properties_file=found.properties_file, conf=conf)


def _spark_defaults(properties_file: str | None) -> dict[str, str]:
    folder = os.environ.get("SPARK_CONF_DIR") or Path(_find_spark_home()) / "conf"
    file = Path(properties_file) if properties_file else Path(folder) / "spark-defaults.conf"
    if not file.is_file():
        return {}
    lines = file.read_text(encoding="utf-8").splitlines()
    return _to_dict(found.groups() for line in lines if (found := _PROPERTY.match(line)))


def _to_dict(pairs: Iterable[tuple[str, ...]]) -> dict[str, str]:
    return {key.strip(): value.strip() for key, value in pairs}
