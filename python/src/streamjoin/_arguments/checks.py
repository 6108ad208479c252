"""Checks of arguments. The errors say what a function takes, and what it was given."""

import re

from pyspark.sql import DataFrame

from streamjoin._spark.extension import is_instance
from streamjoin.errors import StreamJoinError


def require_type(kind: type, found: object, call: str, wanted: str) -> None:
    """Reject an object of the wrong type.

    Raises:
        StreamJoinError: ``STREAMJOIN_WRONG_ARGUMENT``.
    """
    if not is_instance(found, kind):
        raise StreamJoinError("STREAMJOIN_WRONG_ARGUMENT", call=call, wanted=wanted, found=_describe_type(found))


def require_dataframes(call: str, wanted: str, *found: object) -> None:
    """Reject anything but a DataFrame of Spark; for one of pandas, the error says how to convert it.

    Raises:
        StreamJoinError: ``STREAMJOIN_WRONG_ARGUMENT``.
    """
    for each in found:
        require_type(DataFrame, each, call, wanted)


def _describe_type(found: object) -> str:
    if isinstance(found, type):
        return f"the class {found.__name__}"
    name, module = type(found).__name__, type(found).__module__
    if name == "DataFrame" and module.startswith("pyspark.pandas."):
        return "a pandas-on-Spark DataFrame: write df.to_spark()"
    if name == "DataFrame" and module.partition(".")[0] == "pandas":
        return "a pandas DataFrame: write spark.createDataFrame(df)"
    return name


def wrong_argument(call: str, wanted: str, found: object) -> StreamJoinError:
    """Return the error for a value that a function does not take."""
    return StreamJoinError("STREAMJOIN_WRONG_ARGUMENT", call=call, wanted=wanted, found=repr(found))


def batch_limits(call: str, **given: int | None) -> dict[str, str]:
    """Return the given limits of a batch, each a positive number, as options of a reader.

    Raises:
        StreamJoinError: ``STREAMJOIN_WRONG_ARGUMENT``.
    """
    for name, limit in given.items():
        if limit is not None and (not isinstance(limit, int) or limit < 1):
            wanted = re.sub("[A-Z]", lambda each: f"_{each[0].lower()}", name)
            raise wrong_argument(call, f"a positive number as {wanted}", limit)
    return {name: str(limit) for name, limit in given.items() if limit is not None}


def unavailable_arguments(unavailable: object, call: str) -> dict[str, object]:
    """Return the arguments of a call that say what marks a value that was not sent.

    Raises:
        StreamJoinError: ``STREAMJOIN_WRONG_ARGUMENT`` if it is neither a text nor None.
    """
    if unavailable is not None and not isinstance(unavailable, str):
        raise wrong_argument(call, "a text as unavailable, or None", unavailable)
    return {"unavailable": unavailable, "as_sent": unavailable is None}
