"""SQL: the table functions of the extension, which are all that Spark Connect needs, and Columns as text."""

from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession

from streamjoin._jvm import EXTENSION
from streamjoin.errors import StreamJoinError


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


def selected(df: DataFrame, column: Column) -> list[Any]:
    """Return what Spark makes of a Column above a DataFrame of a classic session: Catalyst's named expressions.

    Raises:
        pyspark.errors.AnalysisException: It cannot be resolved there.
    """
    found = df.select(column)._jdf.queryExecution().analyzed().expressions()
    return [found.apply(number) for number in range(found.size())]


def columns_in_sql(df: DataFrame, column: Column) -> list[str]:
    """Return a Column above a DataFrame as SQL; ``F.col("*")`` is several."""
    return [str(each.sql()) for each in selected(df, column)]


def condition_in_sql(df: DataFrame, condition: Column) -> str:
    """Return a condition on the columns of a DataFrame as SQL.

    Raises:
        pyspark.errors.AnalysisException: It is no condition, or cannot be resolved there.
    """
    return str(df.where(condition)._jdf.queryExecution().analyzed().condition().sql())
