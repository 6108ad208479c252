"""`configure`, the checks of session, jar and versions, and arguments that no function takes.

Errors are checked by their condition and by the fix that they name.
"""

import json
import pydoc
import sys
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from conftest import LINE, LINES, LONG, Run, rejected, run
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.connect.dataframe import DataFrame as ConnectDataFrame
from pyspark.sql.connect.streaming.query import StreamingQuery as ConnectQuery
from pyspark.sql.connect.streaming.readwriter import DataStreamWriter as ConnectWriter

import streamjoin as sj
from streamjoin._packaging import jars as packaged
from streamjoin._packaging.jars import JarInfo, check_jar, check_server_jar, jar_path, line_in_name, version_in_name
from streamjoin._spark import driver
from streamjoin._spark.settings import merge_lists

EXTENSION = "org.apache.spark.sql.streamjoin.StreamJoinExtensions"
OTHER_LINE = f"/x/streamjoin-spark4.0_2.13-{sj.__version__}.jar"
SPARK_SUBMIT = str(Path(sys.executable).parent / "spark-submit")


# configure ----------------------------------------------------------------------------------------

# Prints what a session built now would get: the builder's settings, and the arguments with which
# the JVM will start.
CONFIGURED = """
import json, os
import streamjoin as sj
from pyspark.sql import SparkSession
builder = SparkSession.builder
for key, value in json.loads(os.environ["SETTINGS"]).items():
    builder = builder.config(key, value)
assert sj.configure(builder) is builder
print(json.dumps([builder._options, os.environ["PYSPARK_SUBMIT_ARGS"].split()]))
"""


def configured(python: Run, settings: dict[str, str] | None = None, **environment: str) -> tuple[dict[str, str], str]:
    """Return the builder's settings after `configure`, and the jars that the JVM would start with."""
    options, words = json.loads(python(CONFIGURED, SETTINGS=json.dumps(settings or {}), **environment))
    assert words[-1] == "pyspark-shell"
    return options, words[len(words) - words[::-1].index("--jars")]


def test_lists_are_merged_in_order_each_entry_once() -> None:
    assert merge_lists("a, b", None, "", "c,a", "b,,d") == "a,b,c,d"
    assert merge_lists(None) == ""


def test_configure_adds_jar_and_extension(python: Run) -> None:
    options, jars = configured(python)
    assert options == {"spark.sql.extensions": EXTENSION}
    assert jars == str(jar_path())


def test_configure_keeps_what_the_builder_has(python: Run) -> None:
    given = {"spark.jars": "/a.jar,/b.jar", "spark.sql.extensions": "org.A", "spark.app.name": "x"}
    options, jars = configured(python, given)
    assert jars == options["spark.jars"] == f"/a.jar,/b.jar,{jar_path()}"
    assert options["spark.sql.extensions"] == f"org.A,{EXTENSION}"
    assert options["spark.app.name"] == "x"


def test_configure_keeps_what_spark_submit_arguments_give(python: Run) -> None:
    words = f"--jars /c.jar --conf spark.sql.extensions=org.C,{EXTENSION} -c spark.x=1 --verbose pyspark-shell"
    options, jars = configured(python, {"spark.sql.extensions": "org.A"}, PYSPARK_SUBMIT_ARGS=words)
    assert jars == f"/c.jar,{jar_path()}"
    assert options["spark.sql.extensions"] == f"org.A,org.C,{EXTENSION}"


def test_configure_keeps_what_spark_defaults_give(python: Run, tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# spark.jars /no.jar\nspark.jars  /d.jar, /e.jar \nspark.sql.extensions=org.D\n\nspark.executor.memory 1g\n"
    )
    options, jars = configured(python, {"spark.jars": "/a.jar"}, SPARK_CONF_DIR=str(tmp_path))
    assert jars == options["spark.jars"] == f"/a.jar,/d.jar,/e.jar,{jar_path()}"
    assert options["spark.sql.extensions"] == f"org.D,{EXTENSION}"


def test_configure_reads_the_properties_file_instead_of_the_defaults(python: Run, tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.jars /d.jar")
    own = tmp_path / "own.conf"
    own.write_text("spark.jars: /f.jar")
    words = f"--properties-file {own} pyspark-shell"
    _, jars = configured(python, SPARK_CONF_DIR=str(tmp_path), PYSPARK_SUBMIT_ARGS=words)
    assert jars == f"/f.jar,{jar_path()}"


def test_configure_uses_a_streamjoin_jar_that_is_given(python: Run) -> None:
    given = f"hdfs://cluster/jars/streamjoin-spark{LINE}_2.13-{sj.__version__}.jar"
    options, jars = configured(python, {"spark.jars": given})
    assert jars == options["spark.jars"] == given


def test_configure_twice_changes_nothing(python: Run) -> None:
    out = python(
        CONFIGURED + "sj.configure(builder)\nprint(json.dumps(os.environ['PYSPARK_SUBMIT_ARGS'].split()))",
        SETTINGS="{}",
    )
    once, twice = out.splitlines()
    assert json.loads(once)[1] == json.loads(twice)


# A program for a separate process; `rejects` prints the condition of the error.
PROGRAM = """
import sys
import streamjoin as sj
from pyspark import SparkConf, SparkContext
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

def new():
    return SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")

def rejects(call):
    try:
        call()
    except sj.StreamJoinError as error:
        print(error.getCondition())
    else:
        print("fine")
"""


def test_a_session_of_configure_passes_the_checks_and_so_does_the_next_one(python: Run, tmp_path: Path) -> None:
    other = tmp_path / "other.jar"
    with ZipFile(other, "w") as archive:
        archive.writestr("other.txt", "")
    out = python(
        PROGRAM + "spark = sj.configure(new()).getOrCreate()\n"
        "rejects(lambda: sj.check(spark))\n"
        "print(spark.conf.get('spark.jars'))\n"
        "print(spark.sparkContext.getConf().get('spark.sql.extensions'))\n"
        "builder = new()\n"
        "print(sj.configure(builder) is builder, 'spark.jars' in builder._options)\n"
        "spark.stop()\n"
        "spark = sj.configure(new()).getOrCreate()\n"
        "rejects(lambda: sj.check(spark))\n",
        PYSPARK_SUBMIT_ARGS=f"--jars {other} pyspark-shell",
    ).split()
    first, jars, extensions, *rest = out
    assert first == "fine"
    assert [jar.removeprefix("file://") for jar in jars.split(",")] == [str(other), str(jar_path())]
    assert extensions == EXTENSION
    assert rest == ["True", "False", "fine"]


@pytest.mark.skipif(not LONG, reason="a part of make test-long; each starts a JVM")
def test_configure_after_a_session_without_the_jar(python: Run) -> None:
    out = python(
        PROGRAM + "spark = new().getOrCreate()\n"
        "rejects(lambda: sj.check(spark))\n"
        "rejects(lambda: sj.bounds(spark.range(1)))\n"
        "rejects(lambda: sj.configure(new()))\n"
        "spark.stop()\n"
        "spark = sj.configure(new()).getOrCreate()\n"
        "rejects(lambda: sj.check(spark))\n"
    )
    assert out.split() == [*["STREAMJOIN_JAR_MISSING.CLASS_PATH"] * 2, "STREAMJOIN_SPARK_ALREADY_RUNNING", "fine"]


def test_a_session_with_the_jar_and_without_the_extension(python: Run) -> None:
    out = python(
        PROGRAM + "SparkContext(conf=SparkConf().setMaster('local[1]').set('spark.ui.enabled', 'false'))\n"
        # Spark shows the setting afterwards, but ignores it.
        f"spark = new().config('spark.sql.extensions', '{EXTENSION}').getOrCreate()\n"
        "print(spark.conf.get('spark.sql.extensions'))\n"
        "rejects(lambda: sj.check(spark))\n"
        "stream = spark.readStream.format('rate').load()\n"
        "rejects(lambda: sj.join(stream, stream, 'value'))\n"
        "rejects(lambda: sj.join(spark.range(1), spark.range(1), 'id'))\n"
        "rejects(lambda: sj.configure(new()))\n"
        "loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()\n"
        "in_scala = loader.loadClass('streamjoin.Arrangement$').getField('MODULE$').get(None)\n"
        "try:\n    in_scala.forName(spark._jsparkSession, '/orders')\n"
        "except AnalysisException as error:\n    print(error.getCondition())\n",
        PYSPARK_SUBMIT_ARGS=f"--jars {jar_path()} pyspark-shell",
    )
    missing = "STREAMJOIN_EXTENSION_MISSING"
    assert out.split() == [EXTENSION, missing, missing, "fine", "STREAMJOIN_SPARK_ALREADY_RUNNING", missing]


@pytest.mark.skipif(not LONG, reason="a part of make test-long; each starts a JVM")
def test_a_jar_that_this_spark_cannot_link(python: Run, tmp_path: Path) -> None:
    jar = tmp_path / f"streamjoin-spark{LINE}_2.13-{sj.__version__}.jar"
    with ZipFile(jar, "w") as archive:
        archive.writestr("org/apache/spark/sql/streamjoin/PythonApi$.class", b"not a class")
    out = python(
        PROGRAM + "spark = new().getOrCreate()\nrejects(lambda: sj.check(spark))\n",
        PYSPARK_SUBMIT_ARGS=f"--jars {jar} pyspark-shell",
    )
    assert out.split() == ["STREAMJOIN_SPARK_VERSION.NOT_LOADED"]


def test_configure_under_spark_submit_without_jars(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(
        PROGRAM + "spark = sj.configure(new()).getOrCreate()\nrejects(lambda: sj.check(spark))\n"
        "print(spark.conf.get('spark.executor.memory'))\n"
    )
    out = run([SPARK_SUBMIT, "--conf", "spark.executor.memory=1g", str(script)], {"PYSPARK_PYTHON": sys.executable})
    assert out.splitlines()[-2:] == ["fine", "1g"]


@pytest.mark.parametrize(
    ("builder", "condition"),
    [
        ("SparkSession.builder.remote('sc://host')", "STREAMJOIN_SPARK_CONNECT"),
        ("new().config('spark.jars', '/x/streamjoin-spark4.2_2.13-0.0.9.jar')", "STREAMJOIN_JAR_VERSION.DRIVER"),
        (f"new().config('spark.jars', '{OTHER_LINE}')", "STREAMJOIN_SPARK_VERSION.DRIVER"),
        ("new()", "fine"),
    ],
    ids=["Spark Connect", "a jar of another version", "a jar for another line of Spark", "a builder"],
)
def test_what_configure_says_about_a_builder(python: Run, builder: str, condition: str) -> None:
    assert python(f"{PROGRAM}rejects(lambda: sj.configure({builder}))\n").split() == [condition]


def test_configure_sees_the_server_that_the_environment_names(python: Run) -> None:
    program = f"{PROGRAM}rejects(lambda: sj.configure(SparkSession.builder))\n"
    assert python(program, SPARK_REMOTE="sc://host").split() == ["STREAMJOIN_SPARK_CONNECT"]
    assert python(program, SPARK_REMOTE="local[2]").split() == ["fine"]


# Checks -------------------------------------------------------------------------------------------


def test_the_session_of_the_tests_passes(spark: SparkSession) -> None:
    sj.check(spark)


def test_what_the_jar_says_of_itself() -> None:
    assert packaged.read_jar_info(jar_path()) == JarInfo(sj.__version__, LINES[LINE].version)
    assert version_in_name(str(jar_path())) == sj.__version__
    assert version_in_name("file:///x/streamjoin-spark4.2_2.13-0.2.0-SNAPSHOT.jar") == "0.2.0-SNAPSHOT"
    assert version_in_name("/x/org.example_streamjoin-spark4.2_2.13-0.2.0.jar") == "0.2.0"
    assert version_in_name("/streamjoin-spark4.2_2.13-0.2.0.jar/other.jar") is None
    assert line_in_name(str(jar_path())) == LINE
    assert line_in_name("/streamjoin-spark4.2_2.13-0.2.0.jar/other.jar") is None


def test_another_version_of_the_jar() -> None:
    old = JarInfo("0.0.9", "4.2.0")
    rejected("STREAMJOIN_JAR_VERSION.DRIVER", lambda: check_jar(old, "4.2.0"), "pip install streamjoin==0.0.9")


def test_a_session_with_another_version_of_the_jar(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packaged, "__version__", "99.0")
    rejected("STREAMJOIN_JAR_VERSION.DRIVER", lambda: sj.check(spark), "one that `python -m streamjoin jar` prints")


def test_an_entry_that_does_not_answer(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    class Old:
        def version(self) -> str:
            raise Py4JError("Method version([]) does not exist")

    monkeypatch.setattr(driver, "entry_point", lambda *_: Old())
    rejected("STREAMJOIN_JAR_VERSION.MIXED", lambda: sj.check(spark), "Keep only the one")
    rate = spark.readStream.format("rate").load()
    rejected("STREAMJOIN_JAR_VERSION.MIXED", lambda: sj.bounds(rate), "Keep only the one")


def test_another_spark_line(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    check_jar(JarInfo(sj.__version__, "4.2.0"), "4.2.7")
    monkeypatch.setattr(SparkSession, "version", property(lambda _: "4.0.3"))
    rejected("STREAMJOIN_SPARK_VERSION.DRIVER", lambda: sj.check(spark), f"built for Spark {LINE}.\nRun Spark {LINE}")


def test_each_line_has_its_jar(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(packaged, "_FOLDER", tmp_path)
    jars = {line: tmp_path / f"streamjoin-spark{line}_2.13-1.0.jar" for line in ["4.9", "4.10", LINE]}
    for jar in jars.values():
        jar.touch()
    assert {line: jar_path(line) for line in jars} == jars
    assert jar_path() == jars[LINE]
    some = f"{LINE}, 4.9 or 4.10"
    said = f"This is Spark 4.0. This package has streamjoin jars for Spark {some}."
    rejected("STREAMJOIN_SPARK_VERSION.PACKAGE", lambda: jar_path("4.0"), said)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    said = f"Name the line, {some}: `python -m streamjoin jar --spark 4.10`"
    rejected("STREAMJOIN_JAR_MISSING.LINE_UNKNOWN", jar_path, said)


def test_no_jar_in_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(packaged, "_FOLDER", tmp_path)
    rejected("STREAMJOIN_JAR_MISSING.PACKAGE", jar_path, "make jar")


def test_a_server_of_another_version() -> None:
    spark, mine = "4.2.0", sj.__version__
    line = mine.rpartition(".")[0]
    check_server_jar(JarInfo(f"{line}.99", spark), spark)
    other = JarInfo("9.0.0", spark)
    rejected("STREAMJOIN_JAR_VERSION.SERVER", lambda: check_server_jar(other, spark), "on the Spark Connect server")
    rejected("STREAMJOIN_SPARK_VERSION.DRIVER", lambda: check_server_jar(JarInfo(mine, "9.0.1"), spark), "Spark 9.0")


def test_without_pyspark_the_import_says_what_to_install(python: Run) -> None:
    out = python(
        "import sys\nsys.modules['pyspark'] = None\nimport streamjoin as sj\nprint(sj.__version__)\n"
        "try:\n    sj.join\nexcept ImportError as error:\n    print(error)\n"
    )
    assert out.startswith(sj.__version__)
    assert "pip install 'streamjoin[spark]'" in out


def test_the_command_line(tmp_path: Path) -> None:
    module = [sys.executable, "-m", "streamjoin"]
    assert run([*module, "jar"]) == f"{jar_path()}\n"
    assert run([*module, "jar", "--spark", LINE]) == f"{jar_path(LINE)}\n"
    assert "STREAMJOIN_SPARK_VERSION.PACKAGE" in run([*module, "jar", "--spark", "4.0"], expect=1)
    assert run([*module, "version"]) == f"{sj.__version__}\n"
    assert "-1 is not a positive number" in run([*module, "watch", "history", "--interval", "-1"], expect=2)
    no_jar = "from streamjoin._packaging import jars; from streamjoin import __main__ as m; import pathlib, sys; "
    no_jar += f"jars._FOLDER = pathlib.Path({str(tmp_path)!r}); sys.argv[1:] = ['jar']; sys.exit(m.main())"
    assert "[STREAMJOIN_JAR_MISSING.PACKAGE]" in run([sys.executable, "-c", no_jar], expect=1)


def test_other_objects_than_a_function_takes(spark: SparkSession) -> None:
    query: Any = object()
    for fix, call in (
        ("sj.configure takes SparkSession.builder, from which it makes the session, not", lambda: sj.configure(query)),
        ("not SparkSession.", lambda: sj.configure(spark)),  # type: ignore[arg-type]
        ("not the class SparkSession.", lambda: sj.configure(SparkSession)),  # type: ignore[arg-type]
        ("sj.bounds takes the streaming DataFrame", lambda: sj.bounds(query)),
        ("sj.join takes two DataFrames, not object.", lambda: sj.join(spark.range(1), query, "id")),
        ("sj.check takes a SparkSession, not DataFrame.", lambda: sj.check(spark.range(1))),  # type: ignore[arg-type]
    ):
        rejected("STREAMJOIN_WRONG_ARGUMENT", call, fix)


def test_other_objects_of_spark_connect_than_a_function_takes() -> None:
    frame: Any = object.__new__(ConnectDataFrame)
    query: Any = object.__new__(ConnectQuery)
    writer: Any = object.__new__(ConnectWriter)
    for fix, call in (
        ("before writeStream, not DataStreamWriter.", lambda: sj.bounds(writer)),
        ("before writeStream, not StreamingQuery.", lambda: sj.bounds(query)),
        ("before writeStream, not DataStreamWriter.", lambda: sj.evolution(writer, "checkpoint")),
        ("sj.join takes two DataFrames, not DataStreamWriter.", lambda: sj.join(frame, writer, "id")),
        ("sj.versions(changes, key=...) as its second argument", lambda: sj.temporal_join(frame, frame, "id")),
        ("sj.check takes a SparkSession, not DataFrame.", lambda: sj.check(frame)),
    ):
        rejected("STREAMJOIN_WRONG_ARGUMENT", call, fix)
    # Such a DataFrame has every attribute, as a column.
    for of_query in (sj.late_rows, lambda one: sj.why(one, "id = 1"), lambda one: sj.report(one, "x.html")):
        rejected("STREAMJOIN_NOT_A_STREAM.QUERY", partial(of_query, frame), "and this is a DataFrame.")


def test_help_and_completion_know_the_functions() -> None:
    assert {"configure", "join", "bounds", "late_rows", "check"} <= set(dir(sj))
    assert "late_rows(query: " in pydoc.render_doc(sj, renderer=pydoc.plaintext)  # type: ignore[attr-defined]
