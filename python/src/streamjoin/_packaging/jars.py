"""The jar that the wheel carries, and what it was built for."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

from streamjoin._packaging.version import __version__
from streamjoin.errors import StreamJoinError

_FOLDER = Path(__file__).parents[1] / "jars"
_NAME = re.compile(r"(?:^|[/\\_])streamjoin-spark(?P<line>\d+\.\d+)_2\.\d+-(?P<version>[^/\\]+)\.jar$")


class JarInfo(NamedTuple):
    """What a jar says about itself: its own version, and the Spark version it was compiled with."""

    version: str
    spark: str


def jar_path(line: str | None = None) -> Path:
    """Return the absolute path of the jar in this package for a line of Spark.

    Args:
        line: The first two numbers of Spark's version, ``4.2``; without it, the line of the installed PySpark.

    Raises:
        StreamJoinError: ``STREAMJOIN_JAR_MISSING`` if the package carries none, or if no PySpark is installed that
            tells the line; ``STREAMJOIN_SPARK_VERSION`` if it carries none for that line.
    """
    jars = all_jars()
    if not jars:
        raise StreamJoinError(
            "STREAMJOIN_JAR_MISSING.PACKAGE",
            folder=str(_FOLDER),
            version=__version__,
        )
    wanted = line or _installed_spark_line()
    if wanted is None:
        raise StreamJoinError(
            "STREAMJOIN_JAR_MISSING.LINE_UNKNOWN",
            lines=_any_of(jars),
            newest=max(jars, key=_sort_key),
        )
    if wanted not in jars:
        raise StreamJoinError(
            "STREAMJOIN_SPARK_VERSION.PACKAGE",
            spark=wanted,
            built=_any_of(jars),
        )
    return jars[wanted]


def all_jars() -> dict[str, Path]:
    """Return the jars of the package by Spark's line, the oldest line first."""
    found = {named["line"]: jar for jar in _FOLDER.glob("*.jar") if (named := _NAME.search(str(jar)))}
    return {line: found[line] for line in sorted(found, key=_sort_key)}


def _installed_spark_line() -> str | None:
    # A cluster's PySpark is on the path without being installed: only the module has the version.
    try:
        from pyspark import __version__ as version
    except ImportError:
        return None
    return _major_minor(version)


def _sort_key(line: str) -> list[int]:
    return [int(part) for part in line.split(".")]


def _any_of(lines: Iterable[str]) -> str:
    *others, last = lines
    return f"{', '.join(others)} or {last}" if others else last


def read_jar_info(jar: Path) -> JarInfo:
    """Return the versions of the jar and of its Spark, read from the jar without starting a JVM."""
    with ZipFile(jar) as archive:
        lines = archive.read("streamjoin/version.properties").decode().split()
    properties = dict(line.split("=", 1) for line in lines)
    return JarInfo(properties["version"], properties["spark"])


def version_in_name(jar: str) -> str | None:
    """Return the version in the file name of a streamjoin jar (a path or a URL), None for any other file."""
    found = _NAME.search(jar)
    return found["version"] if found else None


def line_in_name(jar: str) -> str | None:
    """Return the line of Spark in the file name of a streamjoin jar (a path or a URL), None for any other file."""
    found = _NAME.search(jar)
    return found["line"] if found else None


def check_jar(found: JarInfo, spark_version: str) -> None:
    """Reject a jar that is not this package's, or not of the given Spark's line (the first two numbers).

    Raises:
        StreamJoinError: ``STREAMJOIN_JAR_VERSION`` or ``STREAMJOIN_SPARK_VERSION``.
    """
    if found.version != __version__:
        raise StreamJoinError(
            "STREAMJOIN_JAR_VERSION.DRIVER",
            jar=found.version,
            package=__version__,
        )
    _check_spark(found, spark_version)


def check_server_jar(found: JarInfo, spark_version: str) -> None:
    """Reject a jar of another line than this package's (the first two numbers), or of another Spark's line.

    Raises:
        StreamJoinError: ``STREAMJOIN_JAR_VERSION`` or ``STREAMJOIN_SPARK_VERSION``.
    """
    if _major_minor(found.version) != _major_minor(__version__):
        raise StreamJoinError(
            "STREAMJOIN_JAR_VERSION.SERVER",
            jar=found.version,
            package=__version__,
        )
    _check_spark(found, spark_version)


def _check_spark(found: JarInfo, spark_version: str) -> None:
    built, wanted = _major_minor(found.spark), _major_minor(spark_version)
    if built != wanted:
        raise StreamJoinError(
            "STREAMJOIN_SPARK_VERSION.DRIVER",
            spark=spark_version,
            built=built,
            line=wanted,
        )


def _major_minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
