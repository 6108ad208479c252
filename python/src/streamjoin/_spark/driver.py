"""The driver of a classic session: whether it has the jar, and which version.

The jar may come by ``--jars`` or ``spark.jars``, which Spark adds to the class loader of the thread and not to
the one that py4j's ``jvm`` looks into. So the entry class is loaded through the thread's context class loader:
its absence is then an exception that can be explained, not a ``JavaPackage`` that is not callable.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from streamjoin._packaging.jars import JarInfo, check_jar
from streamjoin._packaging.version import __version__
from streamjoin._spark.extension import EXTENSION
from streamjoin.errors import StreamJoinError

_ENTRY = "org.apache.spark.sql.streamjoin.PythonApi$"


def entry_point(jvm: Any, spark_version: str) -> Any:
    """Return the JVM's entry object for Python.

    Raises:
        StreamJoinError: ``STREAMJOIN_JAR_MISSING`` if the driver's class path does not have it, and
            ``STREAMJOIN_SPARK_VERSION`` if it is there but cannot be linked with this Spark.
    """
    try:
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        return loader.loadClass(_ENTRY).getField("MODULE$").get(None)
    except Py4JJavaError as error:
        if error.java_exception.getClass().getSimpleName() == "ClassNotFoundException":
            raise _jar_missing() from error
        raise StreamJoinError(
            "STREAMJOIN_SPARK_VERSION.NOT_LOADED",
            spark=spark_version,
            line=".".join(spark_version.split(".")[:2]),
        ) from error
    except Py4JError as error:
        raise _jar_missing() from error


def _jar_missing() -> StreamJoinError:
    return StreamJoinError("STREAMJOIN_JAR_MISSING.CLASS_PATH")


def check_driver(spark: SparkSession) -> None:
    """Return if a classic session has this version of the extension; else raise as :func:`streamjoin.check` does."""
    found = entry_point(spark._jvm, spark.version)
    with _explain_linkage_errors():
        check_jar(JarInfo(found.version(), found.sparkVersion()), spark.version)
        installed = found.installed(spark._jsparkSession)
    if not installed:
        raise StreamJoinError(
            "STREAMJOIN_EXTENSION_MISSING",
            extension=EXTENSION,
        )


@contextmanager
def _explain_linkage_errors() -> Iterator[None]:
    """Translate the errors of py4j; PySpark has already converted Spark's own errors.

    Raises:
        StreamJoinError: ``STREAMJOIN_JAR_VERSION`` where the jar lacks what is called.
    """
    try:
        yield
    except Py4JError as error:
        if isinstance(error, Py4JJavaError) and not _is_linkage_error(error):
            raise
        raise StreamJoinError("STREAMJOIN_JAR_VERSION.MIXED", package=__version__) from error


def _is_linkage_error(error: Py4JJavaError) -> bool:
    """Tell whether an error says that classes of two versions do not fit together."""
    kind = error.java_exception.getClass()
    while kind is not None and kind.getName() != "java.lang.LinkageError":
        kind = kind.getSuperclass()
    return kind is not None
