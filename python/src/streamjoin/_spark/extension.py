"""The name of the extension, and the two kinds of sessions. Nothing here needs PySpark."""

EXTENSION = "org.apache.spark.sql.streamjoin.StreamJoinExtensions"


def is_connect(value: object) -> bool:
    """Tell whether a session, builder or DataFrame belongs to Spark Connect, without importing its client."""
    return any(base.__module__.startswith("pyspark.sql.connect.") for base in type(value).__mro__)


def is_instance(value: object, kind: type) -> bool:
    """Tell whether a value is of a class, or of Spark Connect's class of the same name, which may not be related."""
    return isinstance(value, kind) or any(
        base.__module__.startswith("pyspark.sql.connect.") and base.__qualname__ == kind.__qualname__
        for base in type(value).__mro__
    )
