"""The DataFrame of a writer, which Spark's writers do not show."""

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

_QUERY = "_streamjoin_query"


def writer_of(query: DataFrame, path: str) -> DataStreamWriter:
    """Return the writer of a query that maintains an arrangement."""
    writer = query.writeStream.format("streamjoin").option("path", path)
    setattr(writer, _QUERY, query)
    return writer


def query_of(df: DataFrame | DataStreamWriter) -> DataFrame:
    """Return the DataFrame that a writer of :func:`writer_of` writes; any other value as it is."""
    query: DataFrame = getattr(df, _QUERY, df)
    return query
