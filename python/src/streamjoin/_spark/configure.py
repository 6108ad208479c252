"""The jar and the extension in the settings of a session that is about to be built."""

from typing import Any

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from streamjoin._packaging.jars import JarInfo, check_jar, jar_path, line_in_name, read_jar_info, version_in_name
from streamjoin._spark.checks import check_session
from streamjoin._spark.driver import entry_point
from streamjoin._spark.extension import EXTENSION
from streamjoin._spark.settings import (
    EXTENSIONS,
    JARS,
    add_jars_to_launch,
    initial_settings,
    is_jvm_running,
    merge_lists,
)
from streamjoin.errors import StreamJoinError


def with_extension(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Return the builder with the jar and the extension; raises as :func:`streamjoin.configure` does."""
    if SparkContext._active_spark_context is not None:
        _check_running(SparkContext._active_spark_context)
        return builder
    outside = initial_settings()
    before = merge_lists(builder._options.get(JARS), outside.get(JARS))
    jar = next((each for each in before.split(",") if version_in_name(each)), None)
    if jar is None:
        jar = str(jar_path())
        found = read_jar_info(jar_path())
    else:
        # It may be on another machine or in an object store, so only its name tells what it is.
        own_version = version_in_name(jar) or ""
        found = JarInfo(own_version, line_in_name(jar) or "")
    check_jar(found, pyspark.__version__)

    jars = merge_lists(before, jar)
    if is_jvm_running():
        _add_to_driver(jar)
        builder.config(JARS, jars)
    else:
        if jars != outside.get(JARS):
            add_jars_to_launch(jars)
        if JARS in builder._options:
            builder.config(JARS, jars)
    return builder.config(EXTENSIONS, merge_lists(builder._options.get(EXTENSIONS), outside.get(EXTENSIONS), EXTENSION))


def _check_running(context: SparkContext) -> None:
    """Accept a running context only if its sessions have the extension.

    Spark reads the setting from the SparkContext's configuration when it creates a session
    (``SparkSession.applyAndLoadExtensions``). Given to a builder later, it shows up in ``spark.conf`` but has no
    effect.
    """
    extensions = context.getConf().get(EXTENSIONS) or ""
    if EXTENSION not in [each.strip() for each in extensions.split(",")]:
        raise StreamJoinError(
            "STREAMJOIN_SPARK_ALREADY_RUNNING",
            application=repr(context.appName),
            extension=EXTENSION,
        )
    session = SparkSession.getActiveSession()
    if session is None:
        jvm_entry = entry_point(context._jvm, context.version)
        check_jar(JarInfo(jvm_entry.version(), jvm_entry.sparkVersion()), context.version)
    else:
        check_session(session)  # one of Spark Connect if its server runs in this process


def _add_to_driver(jar: str) -> None:
    """Put the jar on the class path of a JVM that started before its session.

    A session's ``spark.jars`` reaches the executors only. The driver's class path was made when the JVM started,
    and Spark merely logs a warning about an extension class that it cannot find there.
    """
    jvm: Any = SparkContext._jvm
    try:
        entry_point(jvm, pyspark.__version__)
        return
    except StreamJoinError as error:
        if error.getCondition() != "STREAMJOIN_JAR_MISSING.CLASS_PATH":
            raise
        missing = error
    try:
        # Spark's launcher gives its threads a MutableURLClassLoader, which can be extended.
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        loader.addURL(jvm.org.apache.spark.util.Utils.resolveURI(jar).toURL())
    except Py4JError as error:
        raise missing from error
    entry_point(jvm, pyspark.__version__)
