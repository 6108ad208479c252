"""The Python API: `configure`, the checks, `join`, `bounds`. Errors by their condition and by the fix they name."""

import json
import pydoc
import sys
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, get_args
from zipfile import ZipFile

import pytest
from conftest import Run, run
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import streamjoin as sj
from streamjoin import _bounds, jvm, packaged_jar
from streamjoin.durations import interval_sql, microseconds
from streamjoin.packaged_jar import Built, check_built, jar_path, version_in_name
from streamjoin.spark_settings import merged

EXTENSION = "org.apache.spark.sql.streamjoin.StreamJoinExtensions"
SPARK_SUBMIT = str(Path(sys.executable).parent / "spark-submit")


def refused(condition: str, fix: str, call: Callable[[], Any]) -> None:
    """Expect a call to fail with this condition and this text in its message, and nothing of py4j."""
    with pytest.raises(sj.StreamJoinError) as caught:
        call()
    assert caught.value.getCondition() == condition, str(caught.value)
    assert str(caught.value).startswith(f"[{condition}] ")
    assert fix in str(caught.value)
    assert "JavaPackage" not in str(caught.value)


# configure ------------------------------------------------------------------------------------------------------

# Prints what a session built now would get: the builder's settings, and the words with which the JVM will start.
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
    assert merged("a, b", None, "", "c,a", "b,,d") == "a,b,c,d"
    assert merged(None) == ""


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
    given = f"hdfs://cluster/jars/streamjoin-spark4.2_2.13-{sj.__version__}.jar"
    options, jars = configured(python, {"spark.jars": given})
    assert jars == options["spark.jars"] == given


def test_configure_twice_changes_nothing(python: Run) -> None:
    out = python(
        CONFIGURED + "sj.configure(builder)\nprint(json.dumps(os.environ['PYSPARK_SUBMIT_ARGS'].split()))",
        SETTINGS="{}",
    )
    once, twice = out.splitlines()
    assert json.loads(once)[1] == json.loads(twice)


# A program for a process of its own; `refusal` prints the condition of the error.
PROGRAM = """
import sys
import streamjoin as sj
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

def new():
    return SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")

def refusal(call):
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
        "refusal(lambda: sj.check(spark))\n"
        "print(spark.conf.get('spark.jars'))\n"
        "print(spark.sparkContext.getConf().get('spark.sql.extensions'))\n"
        "builder = new()\n"
        "print(sj.configure(builder) is builder, 'spark.jars' in builder._options)\n"
        "spark.stop()\n"
        "spark = sj.configure(new()).getOrCreate()\n"
        "refusal(lambda: sj.check(spark))\n",
        PYSPARK_SUBMIT_ARGS=f"--jars {other} pyspark-shell",
    ).split()
    first, jars, extensions, *rest = out
    assert first == "fine"
    assert [jar.removeprefix("file://") for jar in jars.split(",")] == [str(other), str(jar_path())]
    assert extensions == EXTENSION
    assert rest == ["True", "False", "fine"]


def test_configure_after_a_session_without_the_jar(python: Run) -> None:
    out = python(
        PROGRAM + "spark = new().getOrCreate()\n"
        "refusal(lambda: sj.check(spark))\n"
        "refusal(lambda: sj.bounds(spark.range(1)))\n"
        "refusal(lambda: sj.configure(new()))\n"
        "spark.stop()\n"
        "spark = sj.configure(new()).getOrCreate()\n"
        "refusal(lambda: sj.check(spark))\n"
    )
    assert out.split() == [
        "STREAMJOIN_JAR_MISSING",
        "STREAMJOIN_JAR_MISSING",
        "STREAMJOIN_SPARK_ALREADY_RUNNING",
        "fine",
    ]


def test_a_session_with_the_jar_and_without_the_extension(python: Run) -> None:
    out = python(
        PROGRAM + "SparkContext(conf=SparkConf().setMaster('local[1]').set('spark.ui.enabled', 'false'))\n"
        # Spark shows the setting afterwards, and does not follow it.
        f"spark = new().config('spark.sql.extensions', '{EXTENSION}').getOrCreate()\n"
        "print(spark.conf.get('spark.sql.extensions'))\n"
        "refusal(lambda: sj.check(spark))\n"
        "stream = spark.readStream.format('rate').load()\n"
        "refusal(lambda: sj.join(stream, stream, 'value'))\n"
        "refusal(lambda: sj.join(spark.range(1), spark.range(1), 'id'))\n"
        "refusal(lambda: sj.configure(new()))\n",
        PYSPARK_SUBMIT_ARGS=f"--jars {jar_path()} pyspark-shell",
    )
    assert out.split() == [
        EXTENSION,
        "STREAMJOIN_EXTENSION_MISSING",
        "STREAMJOIN_EXTENSION_MISSING",
        "fine",
        "STREAMJOIN_SPARK_ALREADY_RUNNING",
    ]


def test_a_jar_that_this_spark_cannot_link(python: Run, tmp_path: Path) -> None:
    jar = tmp_path / f"streamjoin-spark4.2_2.13-{sj.__version__}.jar"
    with ZipFile(jar, "w") as archive:
        archive.writestr("org/apache/spark/sql/streamjoin/PythonApi$.class", b"not a class")
    out = python(
        PROGRAM + "spark = new().getOrCreate()\nrefusal(lambda: sj.check(spark))\n",
        PYSPARK_SUBMIT_ARGS=f"--jars {jar} pyspark-shell",
    )
    assert out.split() == ["STREAMJOIN_SPARK_VERSION"]


def test_configure_under_spark_submit_without_jars(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(
        PROGRAM + "spark = sj.configure(new()).getOrCreate()\nrefusal(lambda: sj.check(spark))\n"
        "print(spark.conf.get('spark.executor.memory'))\n"
    )
    out = run([SPARK_SUBMIT, "--conf", "spark.executor.memory=1g", str(script)], {"PYSPARK_PYTHON": sys.executable})
    assert out.splitlines()[-2:] == ["fine", "1g"]


def test_a_builder_of_spark_connect_is_refused(python: Run) -> None:
    out = python(PROGRAM + "refusal(lambda: sj.configure(SparkSession.builder.remote('sc://host')))\n")
    assert out.split() == ["STREAMJOIN_SPARK_CONNECT"]


# Checks ---------------------------------------------------------------------------------------------------------


def test_the_session_of_the_tests_passes(spark: SparkSession) -> None:
    sj.check(spark)


def test_what_the_jar_says_of_itself() -> None:
    assert packaged_jar.built(jar_path()) == Built(sj.__version__, "4.2.0")
    assert version_in_name(str(jar_path())) == sj.__version__
    assert version_in_name("file:///x/streamjoin-spark4.2_2.13-0.2.0-SNAPSHOT.jar") == "0.2.0-SNAPSHOT"
    assert version_in_name("/x/io.github.streamjoin_streamjoin-spark4.2_2.13-0.2.0.jar") == "0.2.0"
    assert version_in_name("/streamjoin-spark4.2_2.13-0.2.0.jar/other.jar") is None


def test_another_version_of_the_jar() -> None:
    refused(
        "STREAMJOIN_JAR_VERSION", "pip install streamjoin==0.0.9", lambda: check_built(Built("0.0.9", "4.2.0"), "4.2.0")
    )


def test_a_given_jar_of_another_version(python: Run) -> None:
    out = python(
        PROGRAM + "refusal(lambda: sj.configure(new().config('spark.jars', '/x/streamjoin-spark4.2_2.13-0.0.9.jar')))\n"
    )
    assert out.split() == ["STREAMJOIN_JAR_VERSION"]


def test_a_running_session_with_another_version_of_the_jar(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packaged_jar, "__version__", "99.0")
    refused("STREAMJOIN_JAR_VERSION", "one that `python -m streamjoin jar` prints", lambda: sj.check(spark))


def test_an_entry_that_does_not_answer(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    class Old:
        def version(self) -> str:
            raise Py4JError("Method version([]) does not exist")

        def bounds(self, _: object) -> object:
            raise Py4JError("Method bounds([]) does not exist")

    monkeypatch.setattr(jvm, "entry", lambda *_: Old())
    refused("STREAMJOIN_JAR_VERSION", "Keep only the one", lambda: sj.check(spark))
    monkeypatch.setattr(_bounds, "checked_entry", lambda _: Old())
    rate = spark.readStream.format("rate").load()
    refused("STREAMJOIN_JAR_VERSION", "Keep only the one", lambda: sj.bounds(rate))


def test_another_spark_line(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    check_built(Built(sj.__version__, "4.2.0"), "4.2.7")
    monkeypatch.setattr(SparkSession, "version", property(lambda _: "4.1.3"))
    refused("STREAMJOIN_SPARK_VERSION", "built for Spark 4.2.\nRun Spark 4.2", lambda: sj.check(spark))


def test_no_jar_in_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(packaged_jar, "_FOLDER", tmp_path)
    refused("STREAMJOIN_JAR_MISSING", "make jar", jar_path)


def test_a_session_of_spark_connect() -> None:
    session = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    refused(
        "STREAMJOIN_SPARK_CONNECT",
        "sj.late_rows and sj.arrangement work here",
        lambda: sj.check(session),
    )


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
    assert run([*module, "version"]) == f"{sj.__version__}\n"
    no_jar = "from streamjoin import packaged_jar, __main__ as m; import pathlib, sys; "
    no_jar += f"packaged_jar._FOLDER = pathlib.Path({str(tmp_path)!r}); sys.argv[1:] = ['jar']; sys.exit(m.main())"
    assert "[STREAMJOIN_JAR_MISSING]" in run([sys.executable, "-c", no_jar], expect=1)


# within ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5 seconds", timedelta(seconds=5)),
        ("1 second", timedelta(seconds=1)),
        ("1 hour 30 minutes", timedelta(minutes=90)),
        ("1 hour, 30 minutes", timedelta(minutes=90)),
        ("INTERVAL 2 Days", timedelta(days=2)),
        ("10m", timedelta(minutes=10)),
        ("5s", timedelta(seconds=5)),
        ("1h30m", timedelta(minutes=90)),
        ("1 week", timedelta(days=7)),
        ("2w 1d", timedelta(days=15)),
        ("250 ms", timedelta(milliseconds=250)),
        ("7 microseconds", timedelta(microseconds=7)),
        ("3us", timedelta(microseconds=3)),
        ("1.5 seconds", timedelta(milliseconds=1500)),
        ("0 seconds", timedelta()),
        ("10 min 3 sec", timedelta(seconds=603)),
        ("1 hour -30 minutes", timedelta(minutes=30)),
        (timedelta(hours=2, microseconds=1), timedelta(hours=2, microseconds=1)),
    ],
)
def test_durations(text: str | timedelta, expected: timedelta) -> None:
    assert microseconds(text) == expected // timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is empty"),
        ("interval", "it is empty"),
        ("5", "not a number followed by a unit"),
        ("seconds", "not a number followed by a unit"),
        ("5 secs and 3 minutes", "'and 3 minutes' is not a number followed by a unit"),
        ("5 fortnights", "'fortnights' is not a unit of time"),
        ("1 month", "the length of a month varies; say it in days"),
        ("2 years 1 day", "the length of a year varies"),
        ("-5 seconds", "it is negative"),
        (timedelta(seconds=-1), "it is negative"),
        ("1.5 microseconds", "not a whole number of microseconds"),
        ("200000000 days", "longer than a Spark interval can be"),
        (5, "it is a int, which has no unit"),
    ],
)
def test_what_is_no_duration(text: Any, reason: str) -> None:
    refused("STREAMJOIN_WITHIN", reason, lambda: microseconds(text))
    refused("STREAMJOIN_WITHIN", "Write for example", lambda: microseconds(text))


@pytest.mark.parametrize("length", [0, 1, 5_000_000, 86_399_999_999, 90_061_000_001, 2**63 - 1])
def test_intervals_are_spark_literals(spark: SparkSession, length: int) -> None:
    row = spark.sql(
        f"SELECT extract(DAY FROM i) * 86400D + extract(HOUR FROM i) * 3600 + extract(MINUTE FROM i) * 60 s,"
        f" extract(SECOND FROM i) f FROM (SELECT {interval_sql(length)} i)"
    ).first()
    assert row is not None
    assert int(row.s) * 1_000_000 + int(row.f * 1_000_000) == length


# join -----------------------------------------------------------------------------------------------------------

TYPES = ["inner", "left_outer", "right_outer", "full_outer", "left_semi", "left_anti"]
ORDERS = [(1, 0, "a"), (1, 100, "b"), (2, 50, "c"), (3, 7, "d"), (None, 10, "e")]
DELIVERIES = [(1, 5, "p"), (1, 105, "q"), (1, 106, "r"), (2, 44, "s"), (4, 1, "t"), (None, 10, "u")]


def event_times(df: DataFrame, name: str) -> DataFrame:
    """Mark seconds as an event time, as `withWatermark` does to a stream (a batch DataFrame loses the mark)."""
    marked = F.timestamp_seconds(name).alias(name, metadata={"spark.watermarkDelayMs": 0})
    return df.select(*[marked if column == name else F.col(f"`{column}`") for column in df.columns])


def inputs(spark: SparkSession, left_time: str, right_time: str) -> tuple[DataFrame, DataFrame]:
    left = spark.createDataFrame(ORDERS, f"id INT, {left_time} LONG, item STRING")
    right = spark.createDataFrame(DELIVERIES, f"id INT, {right_time} LONG, van STRING")
    return event_times(left, left_time), event_times(right, right_time)


def by_hand(how: str, within: int) -> list[tuple[Any, ...]]:
    """Return the join on the id within some seconds, the id once: (id, left time, item, right time, van)."""
    return between(how, -within, within)


def between(how: str, low: int, high: int) -> list[tuple[Any, ...]]:
    """Return the same where ``right time - left time`` is between two numbers of seconds."""
    pairs = [
        (o, d) for o in ORDERS for d in DELIVERIES if o[0] is not None and o[0] == d[0] and low <= d[1] - o[1] <= high
    ]
    met_left, met_right = {o for o, _ in pairs}, {d for _, d in pairs}
    if how == "left_semi":
        return [o for o in ORDERS if o in met_left]
    if how == "left_anti":
        return [o for o in ORDERS if o not in met_left]
    rows: list[tuple[Any, ...]] = [(*o, *d[1:]) for o, d in pairs]
    if how in ("left_outer", "full_outer"):
        rows += [(*o, None, None) for o in ORDERS if o not in met_left]
    if how in ("right_outer", "full_outer"):
        rows += [(d[0], None, None, *d[1:]) for d in DELIVERIES if d not in met_right]
    return rows


def rows_of(df: DataFrame) -> list[tuple[Any, ...]]:
    return in_order(
        tuple(int(value.timestamp()) if isinstance(value, datetime) else value for value in row) for row in df.collect()
    )


def in_order(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=repr)


@pytest.mark.parametrize("how", TYPES)
@pytest.mark.parametrize("times", [("ordered", "delivered"), ("time", "time")])
def test_join_on_a_name_within(spark: SparkSession, how: Any, times: tuple[str, str]) -> None:
    left, right = inputs(spark, *times)
    joined = sj.join(left, right, "id", how, within="6 seconds")
    assert joined.columns == left.join(right, "id", how).columns
    assert rows_of(joined) == in_order(by_hand(how, 6))
    assert rows_of(sj.join(left, right, ["ID"], how, within=timedelta(seconds=5))) == in_order(by_hand(how, 5))


@pytest.mark.parametrize("how", TYPES)
@pytest.mark.parametrize("times", [("ordered", "delivered"), ("time", "time")])
def test_join_within_two_limits(spark: SparkSession, how: Any, times: tuple[str, str]) -> None:
    left, right = inputs(spark, *times)
    for low, high in ((0, 6), (-6, 0), (-6, -1), (1, 5), (5, 5)):
        joined = sj.join(left, right, "id", how, within=(f"{low} seconds", timedelta(seconds=high)))
        assert rows_of(joined) == in_order(between(how, low, high)), (low, high)


@pytest.mark.parametrize("how", TYPES)
@pytest.mark.parametrize("times", [("ordered", "delivered"), ("time", "time")])
def test_join_on_a_condition_within(spark: SparkSession, how: Any, times: tuple[str, str]) -> None:
    left, right = inputs(spark, *times)
    for on in (left.id == right.id, [left.id == right.id, F.lit(True)]):
        joined = sj.join(left, right, on, how, within="6 seconds")
        assert joined.columns == left.join(right, left.id == right.id, how).columns
        expected = [row if how in ("left_semi", "left_anti") else row[1:] for row in by_hand(how, 6)]
        ids = {"left": left["id"]} if how in ("left_semi", "left_anti") else {"left": left["id"], "right": right["id"]}
        without = joined if "right" not in ids else joined.drop(left["id"]).drop(right["id"])
        assert rows_of(without) == in_order(expected)


def test_the_callers_aliases_and_columns_still_work_after_the_join(spark: SparkSession) -> None:
    left, right = (df.alias(name) for df, name in zip(inputs(spark, "time", "time"), "od", strict=True))
    joined = sj.join(left, right, F.expr("o.id = d.id"), within="6 seconds")
    expected = in_order((row[1], row[3]) for row in by_hand("inner", 6))
    assert rows_of(joined.select("o.time", "d.time")) == expected
    assert rows_of(joined.select(left["time"], right["time"])) == expected
    assert rows_of(sj.join(left, right, "id", within="6 seconds").select("o.time", "d.time")) == expected


@pytest.mark.parametrize("checked", ["true", "false"])
def test_a_stream_joined_with_itself(spark: SparkSession, checked: str) -> None:
    key = "spark.sql.analyzer.failAmbiguousSelfJoin"
    spark.conf.set(key, checked)
    try:
        one, _ = inputs(spark, "time", "time")
        pairs = [(x, y) for x in ORDERS for y in ORDERS if x[0] == y[0] == 1 and abs(x[1] - y[1]) <= 100]
        expected = in_order((x[2], y[2]) for x, y in pairs)
        assert len(expected) == 4

        aliased = sj.join(one.alias("a"), one.alias("b"), F.expr("a.id = b.id AND a.id = 1"), within="100 seconds")
        assert aliased.columns == ["id", "time", "item"] * 2
        assert rows_of(aliased.select("a.item", "b.item")) == expected

        named = sj.join(
            one.where("id = 1"), one.where("id < 3").withColumnRenamed("item", "other"), "id", within="100s"
        )
        assert named.columns == ["id", "time", "item", "time", "other"]
        assert rows_of(named.select("item", "other")) == expected

        nearer = sj.join(one.alias("a"), one.alias("b"), "id", "left_outer", within="99 seconds")
        assert rows_of(nearer.select("a.item", "b.item")) == [
            ("a", "a"),
            ("b", "b"),
            ("c", "c"),
            ("d", "d"),
            ("e", None),
        ]
        assert one.count() == sj.join(one, one, "id", "left_semi", within="1s").count() + 1
    finally:
        spark.conf.unset(key)


def test_keys_come_first_and_once(spark: SparkSession) -> None:
    left = event_times(spark.createDataFrame([("x", 1, "u", 2)], "item STRING, t LONG, `a.b` STRING, id INT"), "t")
    right = event_times(spark.createDataFrame([("u", 2, 2)], "`A.B` STRING, t LONG, Id INT"), "t")
    for how, first in (("inner", ["id", "a.b"]), ("right", ["Id", "A.B"]), ("full", ["id", "a.b"])):
        joined = sj.join(left, right, ["id", "a.b"], how, within="1s")  # type: ignore[arg-type]
        assert joined.columns == [*first, "item", "t", "t"]
        assert rows_of(joined) == [(2, "u", "x", 1, 2)]


def test_the_event_time_as_a_key(spark: SparkSession) -> None:
    left, right = inputs(spark, "time", "time")
    for how in ("inner", "right"):
        joined = sj.join(left, right, ["id", "time"], how, within="0 seconds")
        assert joined.columns == ["id", "time", "item", "van"]
        assert joined.count() == {"inner": 0, "right": len(DELIVERIES)}[how]


@pytest.mark.parametrize("how", get_args(sj.JoinType))
def test_every_spelling_of_the_join_types(spark: SparkSession, how: Any) -> None:
    left, right = inputs(spark, "time", "time")
    for within in ("1s", None):
        assert sj.join(left, right, "id", how, within=within).columns == left.join(right, "id", how).columns


def test_without_within_it_is_sparks_join(spark: SparkSession) -> None:
    left, right = inputs(spark, "ordered", "delivered")
    on = (left.id == right.id) & F.expr("delivered BETWEEN ordered AND ordered + INTERVAL 6 SECONDS")
    assert rows_of(sj.join(left, right, on)) == rows_of(left.join(right, on))
    assert rows_of(sj.join(left, right, [on, left.id == 1])) == rows_of(left.join(right, [on, left.id == 1]))


def test_what_join_refuses(spark: SparkSession, tmp_path: Path) -> None:
    left, right = inputs(spark, "ordered", "delivered")
    plain = spark.readStream.schema("id INT, ordered TIMESTAMP").json(str(tmp_path))
    batch = spark.range(1)
    both = left.withColumn("seen", F.col("ordered"))
    windowed = plain.select("id", F.window("ordered", "1 minute"))
    for condition, fix, call in (
        ("STREAMJOIN_JOIN_TYPE", "Write one of: inner, left,", lambda: sj.join(left, right, "id", "cross")),  # type: ignore[arg-type]
        ("STREAMJOIN_JOIN_KEYS", "do not mix", lambda: sj.join(left, right, ["id", left.id == right.id])),  # type: ignore[arg-type]
        ("STREAMJOIN_JOIN_KEYS", "Write a name", lambda: sj.join(left, right, [])),
        ("STREAMJOIN_JOIN_KEYS", "Write a name", lambda: sj.join(left, right, [7])),  # type: ignore[arg-type]
        ("STREAMJOIN_JOIN_KEYS", "its columns are id, delivered, van", lambda: sj.join(left, right, "item")),
        ("STREAMJOIN_WITHIN", "say it in days", lambda: sj.join(left, right, "id", within="1 month")),
        ("STREAMJOIN_WITHIN", "it is negative", lambda: sj.join(left, right, "id", within="-1 second")),
        ("STREAMJOIN_WITHIN", "1 limits, not two", lambda: sj.join(left, right, "id", within=("1s",))),  # type: ignore[arg-type]
        ("STREAMJOIN_WITHIN", "above its upper one", lambda: sj.join(left, right, "id", within=("1s", "0s"))),
        (
            "STREAMJOIN_EVENT_TIME",
            'left = left.withWatermark("ordered", "10 seconds")',
            lambda: sj.join(plain, right, "id", within="1s"),
        ),
        (
            "STREAMJOIN_EVENT_TIME",
            'right = right.withWatermark("time", "10 seconds")',
            lambda: sj.join(left, plain.drop("ordered"), "id", within="1s"),
        ),
        ("STREAMJOIN_NOT_A_STREAM", "the right input is a batch", lambda: sj.join(left, batch, "id", within="1s")),
        ("STREAMJOIN_JOIN_KEYS", "on=F.lit(True)", lambda: sj.join(left, right, None)),  # type: ignore[arg-type]
        ("STREAMJOIN_EVENT_TIME", "the left one has 2: ordered, seen", lambda: sj.join(both, right, "id", within="1s")),
        ("STREAMJOIN_EVENT_TIME", "the left one has none", lambda: sj.join(windowed, right, "id", within="1s")),
    ):
        refused(condition, fix, call)


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
        refused("STREAMJOIN_WRONG_ARGUMENT", fix, call)


def test_help_and_completion_know_the_functions() -> None:
    assert {"configure", "join", "bounds", "late_rows", "check"} <= set(dir(sj))
    assert "late_rows(query: " in pydoc.render_doc(sj, renderer=pydoc.plaintext)  # type: ignore[attr-defined]


# Streams, and bounds --------------------------------------------------------------------------------------------


def stream(spark: SparkSession, folder: Path, time: str) -> DataFrame:
    folder.mkdir(exist_ok=True)
    return spark.readStream.schema(f"id INT, {time} TIMESTAMP").json(str(folder)).withWatermark(time, "10 seconds")


def test_bounds_of_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    orders, deliveries = stream(spark, tmp_path / "o", "ordered"), stream(spark, tmp_path / "d", "delivered")
    shown = sj.bounds(sj.join(orders, deliveries, "id", "left_outer", within="1 hour"))
    assert not shown.isStreaming
    assert shown.columns == ["join", "side", "input", "column", "bound", "keeps", "conjunct", "origin"]
    rows = {row.side: row for row in shown.collect()}
    assert {side: row.column for side, row in rows.items()} == {"left": "ordered", "right": "delivered"}
    assert all("1 hour" in row.keeps for row in rows.values()), rows


def test_bounds_of_a_batch(spark: SparkSession) -> None:
    refused("STREAMJOIN_NOT_A_STREAM", "spark.readStream", lambda: sj.bounds(spark.range(1)))


def test_a_stream_joined_with_itself_runs(spark: SparkSession, tmp_path: Path) -> None:
    events = stream(spark, tmp_path / "in", "time")
    (tmp_path / "in" / "1.json").write_text(
        "".join(f'{{"id": 1, "time": "2026-01-01T00:00:{second:02}Z"}}\n' for second in (0, 4, 10))
    )
    joined = sj.join(events.alias("a"), events.alias("b"), F.expr("a.id = b.id"), within="5 seconds")
    query = (
        joined.select(F.second("a.time").alias("a"), F.second("b.time").alias("b"))
        .writeStream.format("memory")
        .queryName("self_join")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert rows_of(spark.table("self_join")) == [(0, 0), (0, 4), (10, 10), (4, 0), (4, 4)]
