"""The only access to the extension: functions in a query, the same in a classic session and over Spark Connect.

A function takes a DataFrame, text and numbers, and at most some Columns. It is sent as
``df.select("*", F.call_function("sj_...", json, *columns))``, and the extension replaces that whole projection before
Spark looks for such a function. A call without a DataFrame is a table function in SQL.
"""

import json
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession

from streamjoin._spark.extension import EXTENSION, is_connect
from streamjoin._spark.functions import checked, sql_call
from streamjoin.errors import StreamJoinError


def functions_for(df: DataFrame) -> Any:
    """Return the ``pyspark.sql.functions`` for this DataFrame; the public module depends on the process."""
    if is_connect(df):
        from pyspark.sql.connect.functions import builtin

        return builtin
    from pyspark.sql import functions

    return functions


def call_function(df: DataFrame, name: str, *columns: Column, **arguments: Any) -> DataFrame:
    """Return the result of a function of the extension; the session has passed :func:`check_session`.

    Args:
        df: The DataFrame, or the plain join of two inputs.
        name: The function.
        columns: Columns, which Spark resolves against the DataFrame.
        arguments: Its other arguments; those that are None are left out.

    Raises:
        pyspark.errors.AnalysisException: What the function rejects, at the call in either kind of session.
    """
    functions = functions_for(df)
    given = {key: value for key, value in arguments.items() if value is not None}
    values = checked(name, given, on_frame=True)
    made = df.select("*", functions.call_function(name, functions.lit(json.dumps(values)), *columns))
    if is_connect(made):
        _ = made.schema  # the server is asked now, and the answer is kept
    return made


def call_table_function(spark: SparkSession, name: str, *values: str | bool | int) -> DataFrame:
    """Return the answer of a table function of the extension, called with these arguments.

    Raises:
        StreamJoinError: ``STREAMJOIN_JAR_MISSING`` if the session does not know the function.
        pyspark.errors.AnalysisException: What the function rejects.
    """
    try:
        found = spark.sql(f"SELECT * FROM {sql_call(name, *values)}")
        if is_connect(found):
            _ = found.schema
        return found
    except AnalysisException as error:
        if error.getCondition() != "UNRESOLVABLE_TABLE_VALUED_FUNCTION":
            raise
        raise StreamJoinError(
            "STREAMJOIN_JAR_MISSING.SERVER",
            extension=EXTENSION,
        ) from error
