"""The DataFrame of a writer, which Spark's writers do not show."""

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

_QUERY = "_streamjoin_query"


def writer_of(query: DataFrame, path: str) -> DataStreamWriter:
    """Return the writer of a query that maintains an arrangement."""
    writer = query.writeStream.format("streamjoin").option("path", path)
    setattr(writer, _QUERY, query)
    return writer


def query_of(df: Any) -> DataFrame:
    """Return the DataFrame of a writer that :func:`writer_of` made; any other value unchanged."""
    query: DataFrame = getattr(df, _QUERY, df)
    return query
