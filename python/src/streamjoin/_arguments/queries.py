"""Streaming queries as arguments, of a classic session and of Spark Connect."""

from typing import Any, cast

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from streamjoin._spark.extension import is_connect, is_instance
from streamjoin.errors import StreamJoinError


def session_of(query: object, call: str, more: str = "") -> SparkSession:
    """Return the session that started a query.

    Raises:
        StreamJoinError: ``STREAMJOIN_NOT_A_STREAM`` if it is no query.
    """
    if not is_instance(query, StreamingQuery):
        raise StreamJoinError(
            "STREAMJOIN_NOT_A_STREAM.QUERY",
            call=call,
            type=type(query).__name__,
            more=f", {more}" if more else "",
        )
    if is_connect(query):
        return cast(SparkSession, cast(Any, query)._session)
    active = SparkSession.active()
    own = cast(StreamingQuery, query)._jsq.sparkSession()
    return active if own == active._jsparkSession else SparkSession(active.sparkContext, own)
