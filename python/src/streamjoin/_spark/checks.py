"""Whether a classic session, or one of Spark Connect, has this version of the extension."""

from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from streamjoin._packaging.jars import JarInfo, check_server_jar
from streamjoin._spark.calls import call_table_function
from streamjoin._spark.extension import is_connect

_checked_servers: "WeakKeyDictionary[Any, bool]" = WeakKeyDictionary()
"""Sessions of Spark Connect whose servers have passed the checks: a server does not change while it has sessions."""


def check_session(spark: SparkSession) -> None:
    """Return if the session has this version of the extension; otherwise raise as :func:`streamjoin.check` does."""
    if not is_connect(spark):
        from streamjoin._spark.driver import check_driver  # py4j is not there in a pure Spark Connect client

        check_driver(spark)
    elif spark not in _checked_servers:
        (row,) = call_table_function(spark, "sj_version").collect()
        # A client and its server are upgraded apart.
        check_server_jar(JarInfo(row.version, row.spark_version), spark.version)
        _checked_servers[spark] = True
