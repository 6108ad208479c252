"""``check``: whether a session is ready."""

from pyspark.sql import SparkSession

from streamjoin.jvm import checked_entry, expect


def check(spark: SparkSession) -> None:
    """Return if the session has the operator of this package; else say what is missing.

    Whether joins run on it is up to ``spark.streamjoin.enabled``, too.

    Args:
        spark: A classic session. The session of a Spark Connect client cannot be looked into.

    Raises:
        StreamJoinError: ``STREAMJOIN_WRONG_ARGUMENT``, ``STREAMJOIN_JAR_MISSING``, ``STREAMJOIN_JAR_VERSION``,
            ``STREAMJOIN_SPARK_VERSION``, ``STREAMJOIN_EXTENSION_MISSING`` or ``STREAMJOIN_SPARK_CONNECT``, each with
            its fix.

    Example:
        >>> sj.check(spark)
    """
    expect(SparkSession, spark, "sj.check", "a SparkSession")
    checked_entry(spark)
