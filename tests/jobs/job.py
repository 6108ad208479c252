"""What the jobs share: arguments, a quiet Spark session, streams of files, and files with the rows of their batches."""

import argparse
import json
import os
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import streamjoin as sj

REQUIRED: dict[str, Any] = {"required": True}


def arguments(about: str | None, *paths: str, **more: dict[str, Any]) -> argparse.Namespace:
    """Return the arguments of a job: paths, which are required, others by their options, and more settings."""
    parser = argparse.ArgumentParser(description=about)
    for name in paths:
        parser.add_argument(f"--{name}", type=Path, required=True)
    for name, options in more.items():
        parser.add_argument(f"--{name.replace('_', '-')}", **options)
    key_and_value = partial(str.split, sep="=", maxsplit=1)
    parser.add_argument("--conf", nargs="*", type=key_and_value, default=[], help="more settings, each as key=value")
    return parser.parse_args()


def quiet_session(settings: dict[str, str], master: str = "local[2]") -> SparkSession:
    """Return a session with the extension, for small batches, without a web page, and with no messages but errors."""
    builder = SparkSession.builder.master(master)
    common = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "ERROR",
        # A process that was killed in its first write leaves a file in the folder of offsets.
        "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
    }
    for key, value in (common | settings).items():
        builder = builder.config(key, value)
    return sj.configure(builder).getOrCreate()


def stream(spark: SparkSession, files: Path, schema: str) -> DataFrame:
    """Return the stream of a folder of JSON files, one file per batch."""
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(files))


def write_batch(folder: Path, batch: int, rows: list[Any]) -> None:
    """Write the rows of a batch to a file of this process, in one step: it may be killed at any time."""
    (folder / str(batch)).mkdir(parents=True, exist_ok=True)
    unfinished = folder / str(batch) / f"{os.getpid()}.unfinished"
    unfinished.write_text(json.dumps(rows))
    unfinished.rename(unfinished.with_suffix(".json"))
