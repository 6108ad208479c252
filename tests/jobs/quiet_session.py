"""The Spark session of the jobs: with the extension, without a web page, a progress bar or messages but errors."""

from pyspark.sql import SparkSession

import streamjoin as sj


def quiet_session(settings: dict[str, str], master: str = "local[2]") -> SparkSession:
    """Return the session, made for batches of few rows."""
    builder = SparkSession.builder.master(master)
    common = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "ERROR",
    }
    for key, value in (common | settings).items():
        builder = builder.config(key, value)
    return sj.configure(builder).getOrCreate()
