"""A Spark session with the extension."""

from typing import Any

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from streamjoin import packaged_jar
from streamjoin.errors import StreamJoinError
from streamjoin.jvm import EXTENSION, checked_entry, entry, expect, is_connect
from streamjoin.spark_settings import EXTENSIONS, JARS, given, jvm_runs, merged, start_jvm_with


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Add the jar of this package and the extension to a session that is about to be built.

    What is there already stays: the ``spark.jars`` and ``spark.sql.extensions`` of the builder, and those of
    spark-submit or spark-defaults.conf. A streamjoin jar among them is used in place of the package's own. Set
    these two on the builder before, not after. No JVM is started.

    Args:
        builder: ``SparkSession.builder``, with or without settings; also with ``remote("local[2]")``, which
            starts a Spark Connect server in this process.

    Returns:
        The same builder. If a session with the extension runs already, unchanged.

    Raises:
        StreamJoinError: ``STREAMJOIN_WRONG_ARGUMENT``; ``STREAMJOIN_JAR_MISSING``; ``STREAMJOIN_JAR_VERSION``;
            ``STREAMJOIN_SPARK_VERSION``;
            ``STREAMJOIN_SPARK_ALREADY_RUNNING`` if a SparkContext runs without the extension, because
            ``getOrCreate()`` would return its session and say nothing; ``STREAMJOIN_SPARK_CONNECT`` if the
            builder connects to a server, which alone decides on its extensions.

    Example:
        >>> spark = configure(SparkSession.builder.appName("orders")).getOrCreate()
    """
    expect(SparkSession.Builder, builder, "sj.configure", "SparkSession.builder, from which it makes the session")
    _refuse_remote(builder)
    if SparkContext._active_spark_context is not None:
        _check_running(SparkContext._active_spark_context)
        return builder
    outside = given()
    before = merged(builder._options.get(JARS), outside.get(JARS))
    jar = next((each for each in before.split(",") if packaged_jar.version_in_name(each)), None)
    if jar is None:
        jar = str(packaged_jar.jar_path())
        found = packaged_jar.built(packaged_jar.jar_path())
    else:
        # It may be on another machine or in an object store, so only its name tells the version.
        own_version = packaged_jar.version_in_name(jar) or ""
        found = packaged_jar.Built(own_version, pyspark.__version__)
    packaged_jar.check_built(found, pyspark.__version__)

    jars = merged(before, jar)
    if jvm_runs():
        _add_to_driver(jar)
        builder.config(JARS, jars)
    else:
        if jars != outside.get(JARS):
            start_jvm_with(jars)
        if JARS in builder._options:
            builder.config(JARS, jars)
    return builder.config(EXTENSIONS, merged(builder._options.get(EXTENSIONS), outside.get(EXTENSIONS), EXTENSION))


def _refuse_remote(builder: SparkSession.Builder) -> None:
    if is_connect(builder) or str(builder._options.get("spark.remote", "")).startswith("sc://"):
        raise StreamJoinError(
            "STREAMJOIN_SPARK_CONNECT",
            call="sj.configure",
            advice="Start the server with `start-connect-server.sh --jars $(python -m streamjoin jar) "
            f"--conf spark.sql.extensions={EXTENSION}` and leave sj.configure out: df.join, SQL and sj.join work "
            "as they are.",
        )


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
        jvm_entry = entry(context._jvm, context.version)
        packaged_jar.check_built(packaged_jar.Built(jvm_entry.version(), jvm_entry.sparkVersion()), context.version)
    else:
        checked_entry(session)


def _add_to_driver(jar: str) -> None:
    """Put the jar on the class path of a JVM that started before its session.

    A session's ``spark.jars`` reaches the executors only. The driver's class path was made when the JVM started,
    and Spark merely logs a warning about an extension class that it cannot find there.
    """
    jvm: Any = SparkContext._jvm
    try:
        entry(jvm, pyspark.__version__)
        return
    except StreamJoinError as error:
        if error.getCondition() != "STREAMJOIN_JAR_MISSING":
            raise
        missing = error
    try:
        # Spark's launcher gives its threads a MutableURLClassLoader, which can be extended.
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        loader.addURL(jvm.org.apache.spark.util.Utils.resolveURI(jar).toURL())
    except Py4JError as error:
        raise missing from error
    entry(jvm, pyspark.__version__)
