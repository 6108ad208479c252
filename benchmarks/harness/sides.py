"""The compared sides: the engine and its state store; everything else about their sessions is equal."""

from dataclasses import dataclass
from typing import Literal

from pyspark.sql import SparkSession

import streamjoin as sj
from streamjoin._packaging.jars import jar_path

ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}
CHANGELOG = {"spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true"}
JOIN_FORMAT_4 = {
    "spark.sql.streaming.join.stateFormatVersion": "4",
    "spark.sql.streaming.join.stateFormatV4.enabled": "true",
}
# Spark's default writer of checkpoint files starts ten processes per file on a local disk without
# Hadoop's native library. Ours, which a session with the extension has by default,
# starts none.
FILES = "spark.sql.streaming.checkpointFileManagerClass"
SPARKS_FILES = {FILES: "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"}
OUR_FILES = {FILES: "org.apache.spark.sql.streamjoin.files.AtomicCheckpointFileManager"}
# Some GB of rows, all of them in memory.
WITHIN_BUDGET = {"spark.streamjoin.indexMemory": "4g", "spark.streamjoin.executorIndexMemory": "5g"}
# 2: the session has our files and, with RocksDB, changelogs by default.
# 3: temporal joins do not put their output in order; a batch reads files as the one before.
OURS_NOW = 3
PARTITIONS = 2
CORES = 2
SESSION = {
    "spark.driver.memory": "6g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": str(PARTITIONS),
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
    # Adaptive planning is for stateless queries only. Off, the floor is planned as the joins are.
    "spark.sql.adaptive.streaming.stateless.enabled": "false",
}


@dataclass(frozen=True)
class Side:
    """One of the compared sides.

    Attributes:
        name: as in the tables; with ``-files`` if another writer than its default writes its checkpoint files.
        engine: Spark's own join, streamjoin's, a processor for ``transformWithStateInPandas`` as a user writes it (see
            ``with_state.py``), or no join at all.
        settings: the settings that distinguish its session.
        budget_of: the side whose index, a quarter of it, is this one's memory budget.
        version: raised when the same name comes to mean another session, by settings or by defaults: runs of before
            are then no longer of this side.
        ordered: whether the join is a window join, whose output is in the order of rowtime.
    """

    name: str
    engine: Literal["spark", "ours", "with-state", "with-state-buckets", "floor"]
    settings: dict[str, str]
    budget_of: str | None = None
    version: int = 1
    ordered: bool = False


ALL = [
    Side("spark-default", "spark", {}),
    Side("spark-default-our-files", "spark", OUR_FILES),
    Side("spark-rocksdb", "spark", ROCKSDB),
    Side("spark-rocksdb-changelog", "spark", ROCKSDB | CHANGELOG),
    Side("spark-rocksdb-changelog-our-files", "spark", ROCKSDB | CHANGELOG | OUR_FILES),
    Side("spark-rocksdb-v4", "spark", ROCKSDB | JOIN_FORMAT_4),
    Side("spark-rocksdb-v4-our-files", "spark", ROCKSDB | JOIN_FORMAT_4 | OUR_FILES),
    Side("ours-default", "ours", {}, version=OURS_NOW),
    Side("ours-default-spark-files", "ours", SPARKS_FILES),
    Side("ours-default-ordered", "ours", {}, ordered=True),
    Side("ours-rocksdb", "ours", ROCKSDB, version=OURS_NOW),
    Side("ours-default-budget", "ours", {}, budget_of="ours-default", version=OURS_NOW),
    Side("ours-rocksdb-budget", "ours", ROCKSDB, budget_of="ours-rocksdb", version=OURS_NOW),
    Side("ours-rocksdb-within", "ours", ROCKSDB | WITHIN_BUDGET),
    Side("ours-rocksdb-64m", "ours", ROCKSDB | WITHIN_BUDGET | {"spark.streamjoin.indexMemory": "64m"}),
    # Our files for these as well, so that only the join differs from ours.
    Side("with-state", "with-state", ROCKSDB | CHANGELOG | OUR_FILES),
    Side("with-state-buckets", "with-state-buckets", ROCKSDB | CHANGELOG | OUR_FILES),
    Side("floor", "floor", {}),
    Side("floor-our-files", "floor", OUR_FILES),
]
BY_NAME = {side.name: side for side in ALL}

SPARK = ("spark-default", "spark-rocksdb", "spark-rocksdb-changelog", "spark-rocksdb-v4")
OURS = ("ours-default", "ours-rocksdb")
FLOOR = "floor"
FLOOR_OUR_FILES = "floor-our-files"
FLOORS = (FLOOR, FLOOR_OUR_FILES)
BUDGETS = ("ours-rocksdb-within", "ours-rocksdb-64m")
WITH_STATE = ("with-state", "with-state-buckets")
TEMPORAL = (*OURS, "ours-default-ordered", *WITH_STATE, FLOOR_OUR_FILES)
EVERY = (*SPARK, *OURS, *FLOORS)
# All with the checkpoint files of streamjoin: nothing but the join and its state differs.
SPARK_OUR_FILES = ("spark-default-our-files", "spark-rocksdb-changelog-our-files", "spark-rocksdb-v4-our-files")
EQUAL_FILES = (*SPARK_OUR_FILES, *OURS, FLOOR_OUR_FILES)
# Those that decide most goals. With a large state, RocksDB takes several times as long, so it is
# left out there.
DEFAULT_STORE = ("spark-default-our-files", "ours-default", FLOOR_OUR_FILES)
COMPARED = (*DEFAULT_STORE, "spark-rocksdb-changelog-our-files")
# In addition to all with these files, what Spark's user gets.
AND_DEFAULT = ("spark-default", *EQUAL_FILES)
# The effect of the files: the default stores and the floor also with those of the other.
WITH_FILES = ("spark-default", "spark-default-our-files", *SPARK[1:], *OURS, "ours-default-spark-files", *FLOORS)


def session(side: Side, more: dict[str, str]) -> SparkSession:
    """Return a session for a side.

    Args:
        side: whose session it is.
        more: settings of this run, in addition to those of the side.
    """
    builder = SparkSession.builder.master(f"local[{CORES}]").appName(f"benchmark {side.name}")
    for key, value in (SESSION | side.settings | more).items():
        builder = builder.config(key, value)
    if side.engine == "ours":
        builder = sj.configure(builder)
    elif side.settings.get(FILES) == OUR_FILES[FILES]:
        # The jar alone, without the extension.
        builder = builder.config("spark.jars", str(jar_path()))
    return builder.getOrCreate()
