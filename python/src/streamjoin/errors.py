"""The error that Python code raises; the JVM raises Spark's own ``AnalysisException``.

Both take their messages from ``error-conditions.json`` in this package.
"""

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict

from streamjoin._resources import read_file

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
else:
    try:
        from pyspark.errors import PySparkException
    except ImportError:
        # `python -m streamjoin jar` has to work without PySpark, which some clusters provide.
        PySparkException = Exception

Condition = Literal[
    "STREAMJOIN_COLUMN.OTHER_DATAFRAME",
    "STREAMJOIN_DURATION",
    "STREAMJOIN_EXTENSION_MISSING",
    "STREAMJOIN_JAR_MISSING.CLASS_PATH",
    "STREAMJOIN_JAR_MISSING.LINE_UNKNOWN",
    "STREAMJOIN_JAR_MISSING.PACKAGE",
    "STREAMJOIN_JAR_MISSING.SERVER",
    "STREAMJOIN_JAR_VERSION.DRIVER",
    "STREAMJOIN_JAR_VERSION.MIXED",
    "STREAMJOIN_JAR_VERSION.SERVER",
    "STREAMJOIN_JOIN_KEYS.KEYS_DIFFER",
    "STREAMJOIN_JOIN_KEYS.KEY_NOT_IN_INPUT",
    "STREAMJOIN_JOIN_KEYS.MIXED",
    "STREAMJOIN_JOIN_KEYS.NEITHER",
    "STREAMJOIN_JOIN_KEYS.NO_DECLARED_KEY",
    "STREAMJOIN_JOIN_KEYS.UNDECLARED_SIDE",
    "STREAMJOIN_JOIN_KEYS.UNKNOWN",
    "STREAMJOIN_JOIN_TYPE",
    "STREAMJOIN_NOT_A_STREAM.CHANGES",
    "STREAMJOIN_NOT_A_STREAM.QUERY",
    "STREAMJOIN_NO_FIGURES.CHECKPOINT",
    "STREAMJOIN_NO_FIGURES.HISTORY",
    "STREAMJOIN_NO_FIGURES.NO_BATCH",
    "STREAMJOIN_NO_FIGURES.NO_SESSION",
    "STREAMJOIN_NO_FIGURES.PAGE",
    "STREAMJOIN_NO_FIGURES.LOCATION",
    "STREAMJOIN_NO_STATE.NO_OPERATOR",
    "STREAMJOIN_PACKAGE_MISSING",
    "STREAMJOIN_SPARK_ALREADY_RUNNING",
    "STREAMJOIN_SPARK_CONNECT",
    "STREAMJOIN_SPARK_VERSION.DRIVER",
    "STREAMJOIN_SPARK_VERSION.NOT_LOADED",
    "STREAMJOIN_SPARK_VERSION.PACKAGE",
    "STREAMJOIN_WINDOW",
    "STREAMJOIN_WITHIN",
    "STREAMJOIN_WRONG_ARGUMENT",
]
"""The names of all errors raised in Python, with their causes; docs/errors.md has the messages of all."""


class StreamJoinError(PySparkException):
    """An error with what was found, and what to write or run instead.

    It has ``getCondition()``, ``getSqlState()``, ``getMessageParameters()`` and ``getMessage()``, like all errors of
    PySpark.

    Example:
        >>> error = StreamJoinError("STREAMJOIN_JOIN_TYPE", how="'cross'", types="inner, left_outer")
        >>> error.getCondition(), error.getSqlState()
        ('STREAMJOIN_JOIN_TYPE', '22023')
        >>> print(error)
        [STREAMJOIN_JOIN_TYPE] how='cross' is not a join type of two streams.
        Write one of: inner, left_outer. SQLSTATE: 22023
    """

    def __init__(self, condition: Condition, **parameters: str) -> None:
        name, _, cause = condition.partition(".")
        template = _conditions()[name]
        parts = [template, template["subClass"][cause]] if cause else [template]
        text = " ".join("\n".join(part["message"]) for part in parts)
        text = re.sub(r"<(sj\.[\w.]+)>", r"\1", text)
        text = re.sub(r"<(\w+)>", lambda found: parameters.get(found[1], found[0]), text)
        self._text = f"[{condition}] {text} SQLSTATE: {template['sqlState']}"
        self._condition: Condition = condition
        self._sql_state = template["sqlState"]
        self._parameters = parameters
        if PySparkException is Exception:
            super().__init__(self._text)
        else:
            super().__init__(message=text, errorClass=condition, messageParameters=parameters)

    def getCondition(self) -> Condition:  # noqa: N802 (PySpark's name)
        """Return the name of the error and, after a dot, of its cause if it has several."""
        return self._condition

    def getSqlState(self) -> str:  # noqa: N802
        """Return the SQLSTATE of the error."""
        return self._sql_state

    def getMessageParameters(self) -> dict[str, str]:  # noqa: N802
        """Return the parameters of the message as a dict."""
        return self._parameters

    def getMessage(self) -> str:  # noqa: N802
        """Return the whole message, with the name of the error and its SQLSTATE."""
        return self._text

    def __str__(self) -> str:
        return self._text

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (self._condition, self._parameters)


def _again(condition: Condition, parameters: dict[str, str]) -> StreamJoinError:
    return StreamJoinError(condition, **parameters)


class _Message(TypedDict):
    message: list[str]


class _Template(_Message):
    sqlState: str  # the names in Spark's own error files
    subClass: NotRequired[dict[str, _Message]]


@cache
def _conditions() -> dict[str, _Template]:
    found: dict[str, _Template] = json.loads(read_file("error-conditions.json"))
    return found
