"""The sides that are compared: who joins, on which state store; all else about their sessions is the same."""

from dataclasses import dataclass
from typing import Literal

from pyspark.sql import SparkSession

ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}
JOIN_FORMAT_4 = {
    "spark.sql.streaming.join.stateFormatVersion": "4",
    "spark.sql.streaming.join.stateFormatV4.enabled": "true",
}
PARTITIONS = 2
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
    """One of those that are compared.

    Attributes:
        name: as in the tables.
        engine: Spark's own join, streamjoin's, or no join at all.
        settings: what sets its session apart.
        budget_of: the side whose index, a quarter of it, is this one's memory budget.
    """

    name: str
    engine: Literal["spark", "ours", "floor"]
    settings: dict[str, str]
    budget_of: str | None = None


ALL = [
    Side("spark-default", "spark", {}),
    Side("spark-rocksdb", "spark", ROCKSDB),
    Side("spark-rocksdb-v4", "spark", ROCKSDB | JOIN_FORMAT_4),
    Side("ours-default", "ours", {}),
    Side("ours-rocksdb", "ours", ROCKSDB),
    Side("ours-default-budget", "ours", {}, budget_of="ours-default"),
    Side("ours-rocksdb-budget", "ours", ROCKSDB, budget_of="ours-rocksdb"),
    Side("floor", "floor", {}),
]
BY_NAME = {side.name: side for side in ALL}

SPARK = ("spark-default", "spark-rocksdb", "spark-rocksdb-v4")
OURS = ("ours-default", "ours-rocksdb")
FLOOR = "floor"
EVERY = (*SPARK, *OURS, FLOOR)


def session(side: Side, more: dict[str, str]) -> SparkSession:
    """Return a session for a side.

    Args:
        side: whose session it is.
        more: settings of this run beside those of the side.
    """
    builder = SparkSession.builder.master("local[2]").appName(f"benchmark {side.name}")
    for key, value in (SESSION | side.settings | more).items():
        builder = builder.config(key, value)
    if side.engine == "ours":
        import streamjoin as sj

        builder = sj.configure(builder)
    return builder.getOrCreate()
