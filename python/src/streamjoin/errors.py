"""The errors that the Python side raises; those of the JVM side are Spark's own ``AnalysisException``."""

from typing import Literal

Condition = Literal[
    "STREAMJOIN_EVENT_TIME",
    "STREAMJOIN_EXTENSION_MISSING",
    "STREAMJOIN_JAR_MISSING",
    "STREAMJOIN_JAR_VERSION",
    "STREAMJOIN_JOIN_KEYS",
    "STREAMJOIN_JOIN_TYPE",
    "STREAMJOIN_NOT_A_STREAM",
    "STREAMJOIN_SPARK_ALREADY_RUNNING",
    "STREAMJOIN_SPARK_CONNECT",
    "STREAMJOIN_SPARK_VERSION",
    "STREAMJOIN_WITHIN",
    "STREAMJOIN_WRONG_ARGUMENT",
]
"""The names of all errors raised in Python, each listed in the reference."""


class StreamJoinError(RuntimeError):
    """Something that cannot work, with what was found and what to write or run instead.

    Attributes:
        condition: The name of the error, the same as in the reference.
    """

    def __init__(self, condition: Condition, message: str) -> None:
        super().__init__(f"[{condition}] {message}")
        self.condition: Condition = condition
