"""Streaming queries of tests: to the end of their input, and with settings of their own."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter


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
