"""The name of the extension, and the two kinds of sessions. Nothing here needs PySpark."""

EXTENSION = "org.apache.spark.sql.streamjoin.StreamJoinExtensions"


def is_connect(value: object) -> bool:
    """Tell whether a session, builder or DataFrame belongs to Spark Connect, without importing its client."""
    return any(base.__module__.startswith("pyspark.sql.connect.") for base in type(value).__mro__)
