"""The one door to the table functions of the extension, which is all that Spark Connect needs."""

from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from streamjoin.errors import StreamJoinError
from streamjoin.jvm import EXTENSION


def ask(spark: SparkSession, text: str, **inputs: Any) -> DataFrame:
    """Return the answer to a query that calls a table function of the extension.

    Args:
        spark: The session of a Spark Connect client.
        text: The query, with ``{name}`` for an input.
        inputs: DataFrames by name.

    Raises:
        StreamJoinError: ``STREAMJOIN_JAR_MISSING`` if the server does not know the function.
        pyspark.errors.AnalysisException: What the function refuses.
    """
    try:
        return spark.sql(text, **inputs)
    except AnalysisException as error:
        if error.getCondition() != "UNRESOLVABLE_TABLE_VALUED_FUNCTION":
            raise
        raise StreamJoinError(
            "STREAMJOIN_JAR_MISSING",
            where="on the Spark Connect server, or it runs without the extension",
            advice="Start the server with `--jars <the jar that python -m streamjoin jar prints> "
            f"--conf spark.sql.extensions={EXTENSION}`.",
        ) from error
