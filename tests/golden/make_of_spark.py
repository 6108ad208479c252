"""Writes golden checkpoints of Spark's own join: ``spark-<line>-<state>.tar.xz`` next to this file.

Run it with a PySpark that has no extension, once for each line of Spark: ``python make_of_spark.py``, or with the names
of some states as arguments. An archive has the checkpoints of some queries that were stopped in the middle, their file
sinks, and all of the input. ``test_take_over.py`` continues them with streamjoin. Existing archives are never written
over.

Logs of file sources and sinks contain paths; the archive has the text ``FOLDER`` in their place. Checksums of
Hadoop's local file system are left out.
"""

import json
import os
import random
import sys
import tarfile
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

HERE = Path(__file__).parent
LINE = ".".join(pyspark.__version__.split(".")[:2])
PACKAGE = "org.apache.spark.sql.execution.streaming.state"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
FORMAT = "spark.sql.streaming.join.stateFormatVersion"
ROCKS_DB = {
    PROVIDER: f"{PACKAGE}.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
IDS = {"spark.sql.streaming.stateStore.checkpointFormatVersion": "2"}
FORMAT_4 = {FORMAT: "4", "spark.sql.streaming.join.stateFormatV4.enabled": "true"}

ALL = [
    *("inner", "left_outer", "right_outer", "full_outer", "left_semi"),
    *("chain", "counted", "distinct", "unique", "pending"),
]
# The settings of a session that writes a state.
STATES = {
    "default": {},
    # Without the check of the schema, which fails in format 1.
    "format-1": {FORMAT: "1", "spark.sql.streaming.stateStore.stateSchemaCheck": "false"},
    "rocksdb": {PROVIDER: ROCKS_DB[PROVIDER]},
    "format-3": ROCKS_DB | {FORMAT: "3"},
    "format-3-ids": ROCKS_DB | IDS | {FORMAT: "3"},
    "format-4": ROCKS_DB | FORMAT_4,
}
# What a line's own join writes, and by which queries.
WRITES = {
    "4.0": {"default": ALL, "rocksdb": ["full_outer", "pending"], "format-1": ["inner"]},
    "4.1": {"default": ["full_outer", "chain", "pending"], "format-3": ["left_outer", "left_semi", "counted"]},
    "4.2": {
        **{"default": ALL, "rocksdb": ["full_outer", "pending"]},
        **{"format-3-ids": ["full_outer", "chain"], "format-4": ["right_outer", "left_semi", "pending"]},
    },
    "4.3": {"default": ["left_outer", "left_semi", "unique"], "format-4": ["inner", "full_outer", "pending"]},
}

CONDITION = "lk = rk AND rt BETWEEN lt - INTERVAL 5 SECONDS AND lt + INTERVAL 20 SECONDS AND lv + rv < 15"
THIRD = "rk = tk AND tt BETWEEN rt AND rt + INTERVAL 15 SECONDS"
SIDES = {"left": 5, "right": 8, "third": 5}
FILES = 8
BEFORE = 4
START = datetime(2026, 1, 1, tzinfo=UTC)


def main(names: list[str]) -> None:
    """Make the archives of this line of Spark."""
    for name in names or WRITES[LINE]:
        archive = HERE / f"spark-{LINE}-{name}.tar.xz"
        assert not archive.exists(), f"{archive.name} is there already, and stays as it is"
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            make(name, folder)
            without_paths(folder)
            with tarfile.open(archive, "x:xz") as tar:
                tar.add(folder, arcname=".", filter=without_checksums)


def make(name: str, folder: Path) -> None:
    """Run the queries of a state until the middle of the input."""
    settings, kinds = STATES[name], WRITES[LINE][name]
    chance = random.Random(7)
    for number in range(FILES):
        for side in SIDES:
            write(folder / ("input" if number < BEFORE else "later") / side, number, rows(side[0], number, chance))
    spark = session(settings)
    queries = []
    for kind in kinds:
        spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", str(kind != "pending").lower())
        queries.append(start(spark, folder, kind))
    for query in queries:
        query.awaitTermination()
    spark.stop()
    if "pending" in kinds:
        forget_last_batch(folder)


def session(settings: dict[str, str]) -> SparkSession:
    """Return a plain session that keeps little."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    common = {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.artifact.isolation.enabled": "false",
    }
    for key, value in (common | settings).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def start(spark: SparkSession, folder: Path, kind: str) -> StreamingQuery:
    """Start a query from its checkpoint; it ends with its input, of which a batch takes one file of each side."""
    writer = joined(spark, folder / "input", kind).writeStream.format("json").trigger(availableNow=True)
    return writer.start(str(folder / "output" / kind), checkpointLocation=str(folder / "checkpoints" / kind))


def joined(spark: SparkSession, folder: Path, kind: str) -> DataFrame:
    """Return the query of a kind: a join type, or what is described here."""
    left, right, third = (stream(spark, folder, side) for side in SIDES)
    condition = F.expr(CONDITION)
    if kind == "chain":
        return left.join(right, condition).join(third, F.expr(THIRD)).select("lid", "rid", "tid")
    if kind == "counted":  # an aggregation above
        window = F.window("lt", "20 seconds")
        counted = left.join(right, condition, "left_outer").groupBy(window).agg(F.count("*").alias("n"))
        return counted.select(F.unix_seconds("window.start").alias("start"), "n")
    if kind == "distinct":  # dropDuplicates above
        return left.join(right, condition).dropDuplicates(["lid", "lt", "rid"]).select("lid", "rid")
    if kind == "unique":  # dropDuplicates below
        return left.dropDuplicates(["lid", "lt"]).join(right, condition, "left_outer").select("lid", "rid")
    if kind == "left_semi":
        return left.join(right, condition, "left_semi").select("lid")
    return left.join(right, condition, "full_outer" if kind == "pending" else kind).select("lid", "rid")


def stream(spark: SparkSession, folder: Path, side: str) -> DataFrame:
    """Return the stream of a side."""
    s = side[0]
    schema = f"{s}k INT, {s}t TIMESTAMP, {s}v INT, {s}id INT"
    files = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(folder / side))
    return files.withWatermark(f"{s}t", f"{SIDES[side]} seconds")


def rows(s: str, number: int, chance: random.Random) -> list[dict[str, object]]:
    """Return rows of ten seconds, some of them twice; the last file's moves the watermark past all others."""

    def row(key: int, seconds: float, row_id: int) -> dict[str, object]:
        time = (START + timedelta(seconds=seconds)).isoformat()
        return {f"{s}k": key, f"{s}t": time, f"{s}v": chance.randrange(10), f"{s}id": row_id}

    if number == FILES - 1:
        return [row(-"lrt".index(s), 2000, -1)]
    made = [row(chance.randrange(4), number * 10 + chance.uniform(-4.9, 10), number * 100 + i) for i in range(12)]
    return made + made[:2]


def write(folder: Path, number: int, lines: list[dict[str, object]]) -> None:
    """Write one file; Spark takes files in the order of their modification times."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{number}.json"
    path.write_text("".join(json.dumps(row) + "\n" for row in lines))
    os.utime(path, (START.timestamp() + number,) * 2)


def forget_last_batch(folder: Path) -> None:
    """Leave the query as if it had been killed before its last batch reached the sink."""
    checkpoint, sink = folder / "checkpoints" / "pending", folder / "output" / "pending" / "_spark_metadata"
    last = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
    (checkpoint / "commits" / str(last)).unlink()
    (sink / str(last)).unlink()


def logs(folder: Path) -> list[Path]:
    """Return the logs of file sources and sinks: those that contain paths."""
    patterns = ("checkpoints/*/sources/*/*", "output/*/_spark_metadata/*")
    return [path for each in patterns for path in folder.glob(each) if not path.name.startswith(".")]


def without_paths(folder: Path) -> None:
    for path in logs(folder):
        path.write_text(path.read_text().replace(str(folder), "FOLDER"))


def without_checksums(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    name = Path(entry.name).name
    return None if name.startswith(".") and name.endswith(".crc") else entry


if __name__ == "__main__":
    main(sys.argv[1:])
