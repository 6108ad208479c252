"""Runs a variant of a query in a session: its views, its arrangements, and the query itself."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

import streamjoin as sj
from nexmark.generator import KINDS, Setting
from nexmark.queries import ARRANGEMENTS, DELAY_MS, Query, Variant, checksum, text


class Feed:
    """Folders of files that arrive one after the other, as links to files that exist.

    Args:
        inputs: the folder with a folder of each kind.
        arrived: the folder that a query reads; it is emptied.
        kinds: which kinds arrive.
    """

    def __init__(self, inputs: Path, arrived: Path, kinds: Iterable[str]) -> None:
        self.inputs = inputs
        self.arrived = arrived
        self.kinds = tuple(kinds)
        shutil.rmtree(arrived, ignore_errors=True)
        for kind in self.kinds:
            (arrived / kind).mkdir(parents=True)

    def publish(self, number: int) -> None:
        """Let the file with a number arrive, of each kind."""
        for kind in self.kinds:
            name = f"{number:05}.parquet"
            (self.arrived / kind / name).hardlink_to(self.inputs / kind / name)


def stream(spark: SparkSession, inputs: Path, arrived: Path, kind: str, files: int | None = 1) -> DataFrame:
    """Return the stream of a kind, without a watermark.

    Args:
        spark: the session.
        inputs: where all files are.
        arrived: where the files of the stream are or will be.
        kind: of the events.
        files: how many files a batch reads at most; None for all that there are.
    """
    reader = spark.readStream.schema(spark.read.parquet(str(inputs / kind)).schema)
    if files is not None:
        reader = reader.option("maxFilesPerTrigger", files)
    return reader.parquet(str(arrived / kind))


def create_views(spark: SparkSession, inputs: Path, arrived: Path, kinds: Iterable[str], files: int | None = 1) -> None:
    """Create the views of the streams, with their watermarks, and that of the side input."""
    for kind in kinds:
        rows = stream(spark, inputs, arrived, kind, files)
        rows.withWatermark("dateTime", f"{DELAY_MS} milliseconds").createOrReplaceTempView(kind)
    spark.read.parquet(str(inputs / "side")).createOrReplaceTempView("side")


def arrange(
    spark: SparkSession, variant: Variant, inputs: Path, arrived: Path, work: Path, files: int | None = 1
) -> list[StreamingQuery]:
    """Start the queries that maintain the arrangements of a variant, and return those that continue."""
    spark.conf.set("spark.streamjoin.arrangements", str(work / "arrangements"))
    started = []
    for name in variant.arranged:
        kind, key = ARRANGEMENTS[name]
        from_events = kind in KINDS
        rows = stream(spark, inputs, arrived if from_events else inputs, kind, files)
        writer = sj.arrange(rows, name, keys=[[key]])
        checkpoint = str(work / "checkpoints" / name)
        if from_events:
            started.append(writer.start(checkpointLocation=checkpoint))
        else:
            writer.trigger(availableNow=True).start(checkpointLocation=checkpoint).awaitTermination()
    return started


def result(spark: SparkSession, variant: Variant, setting: Setting) -> DataFrame:
    """Return the rows of a variant."""
    return spark.sql(text(variant.file, setting))


def observed(rows: DataFrame, query: Query) -> DataFrame:
    """Return the same rows, with their number and the sum of their checksums in the progress of each batch."""
    diff = F.col("_diff") if "_diff" in rows.columns else F.lit(1)
    return rows.observe(
        "totals",
        F.coalesce(F.sum(diff), F.lit(0)).alias("rows"),
        F.coalesce(F.sum(F.expr(checksum(query, "unix_millis")) * diff), F.lit(0)).alias("check"),
    )
