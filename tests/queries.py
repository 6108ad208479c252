"""Streaming queries of tests: the folders that they read, to the end of their input, and with settings of their own."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

Values = dict[str, Any]
PACKAGE = "org.apache.spark.sql.execution.streaming.state"
PROVIDERS = {"default": f"{PACKAGE}.HDFSBackedStateStoreProvider", "rocksdb": f"{PACKAGE}.RocksDBStateStoreProvider"}


def write_file(path: Path, rows: Iterable[Mapping[str, object]], number: int) -> None:
    """Write rows to a file with a number; Spark's file source takes files in the order of their modification times."""
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}")  # until it is complete
    hidden.write_text("".join(json.dumps(row, default=str) + "\n" for row in rows))
    os.utime(hidden, (1_000_000_000 + number,) * 2)
    hidden.rename(path)


class Inputs:
    """Folders of JSON files. Each folder is a stream, each file a batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.files = 0

    def feed(self, name: str, *rows: Values) -> None:
        """Add a file to a stream."""
        self.files += 1
        write_file(self.folder / name / f"{self.files}.json", rows, self.files)

    def stream(self, name: str, schema: str | StructType, time: str | None = None) -> DataFrame:
        """Return the stream of a folder, with a watermark if a time is given."""
        (self.folder / name).mkdir(exist_ok=True)
        reader = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        rows = reader.json(str(self.folder / name))
        return rows.withWatermark(time, "0 seconds") if time else rows

    def checkpoint(self, name: str) -> str:
        return str(self.folder / "checkpoints" / name)


def finish(writer: DataStreamWriter, checkpoint: Path | str) -> StreamingQuery:
    """Run a query from its checkpoint to the end of its input."""
    query = writer.trigger(availableNow=True).start(checkpointLocation=str(checkpoint))
    query.awaitTermination()
    return query


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Change settings of a session for a while."""
    for name, value in values.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in values:
            spark.conf.unset(name)
