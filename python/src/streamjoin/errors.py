"""The error that the Python side raises; the JVM side raises Spark's own ``AnalysisException``.

Both take their messages from ``error-conditions.json`` in this package.
"""

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
else:
    try:
        from pyspark.errors import PySparkException
    except ImportError:
        # `python -m streamjoin jar` has to work without PySpark, which some clusters provide.
        PySparkException = Exception

Condition = Literal[
    "STREAMJOIN_COLUMN",
    "STREAMJOIN_DURATION",
    "STREAMJOIN_EXTENSION_MISSING",
    "STREAMJOIN_JAR_MISSING",
    "STREAMJOIN_JAR_VERSION",
    "STREAMJOIN_JOIN_KEYS",
    "STREAMJOIN_JOIN_TYPE",
    "STREAMJOIN_NOT_A_STREAM",
    "STREAMJOIN_NO_FIGURES",
    "STREAMJOIN_PACKAGE_MISSING",
    "STREAMJOIN_SPARK_ALREADY_RUNNING",
    "STREAMJOIN_SPARK_CONNECT",
    "STREAMJOIN_SPARK_VERSION",
    "STREAMJOIN_WINDOW",
    "STREAMJOIN_WITHIN",
    "STREAMJOIN_WRONG_ARGUMENT",
]
"""The names of all errors raised in Python, each listed in the reference."""


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
        template = _conditions()[condition]
        text = "\n".join(template["message"])
        for name, value in parameters.items():
            text = text.replace(f"<{name}>", value)
        self._text = f"[{condition}] {text} SQLSTATE: {template['sqlState']}"
        self._condition: Condition = condition
        self._sql_state = template["sqlState"]
        self._parameters = parameters
        if PySparkException is Exception:
            super().__init__(self._text)
        else:
            super().__init__(message=text, errorClass=condition, messageParameters=parameters)

    def getCondition(self) -> Condition:  # noqa: N802 (PySpark's name)
        """Return the name of the error, as in the reference."""
        return self._condition

    def getSqlState(self) -> str:  # noqa: N802
        """Return the SQLSTATE of the error."""
        return self._sql_state

    def getMessageParameters(self) -> dict[str, str]:  # noqa: N802
        """Return the parameters of the message, by name."""
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


class _Template(TypedDict):
    message: list[str]
    sqlState: str  # the name in Spark's own error files


@cache
def _conditions() -> dict[str, _Template]:
    file = Path(__file__).with_name("error-conditions.json")
    found: dict[str, _Template] = json.loads(file.read_text(encoding="utf-8"))
    return found
