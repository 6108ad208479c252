"""Runs a variant of a query in a session: its views, its arrangements, and the query itself."""

from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

import streamjoin as sj
from nexmark.feeds import Feed
from nexmark.generator import Setting
from nexmark.queries import ARRANGEMENTS, DELAY_MS, Query, Variant, checksum, text


def create_views(spark: SparkSession, feed: Feed, kinds: Iterable[str], inputs: Path) -> None:
    """Create the views of the streams, with their watermarks, and that of the side input.

    Args:
        spark: the session.
        feed: of the events.
        kinds: which streams.
        inputs: the folder with the files of the generator.
    """
    for kind in kinds:
        rows = feed.stream(spark, kind)
        rows.withWatermark("dateTime", f"{DELAY_MS} milliseconds").createOrReplaceTempView(kind)
    spark.read.parquet(str(inputs / "side")).createOrReplaceTempView("side")


def arrange(spark: SparkSession, variant: Variant, feed: Feed, inputs: Path, work: Path) -> list[StreamingQuery]:
    """Start the queries that maintain the arrangements of a variant, and return them; that of the side input ends.

    Args:
        spark: the session.
        variant: which query.
        feed: of the events.
        inputs: the folder with the files of the generator.
        work: the folder for arrangements and checkpoints.
    """
    spark.conf.set("spark.streamjoin.arrangements", str(work / "arrangements"))
    maintaining = []
    for name in variant.arranged:
        kind, key = ARRANGEMENTS[name]
        checkpoint = str(work / "checkpoints" / name)
        if kind == "side":
            side = spark.readStream.schema("key BIGINT, value STRING").parquet(str(inputs / "side"))
            writer = sj.arrange(side, name, keys=[[key]]).trigger(availableNow=True)
            writer.start(checkpointLocation=checkpoint).awaitTermination()
        else:
            writer = sj.arrange(feed.stream(spark, kind), name, keys=[[key]])
            maintaining.append(writer.start(checkpointLocation=checkpoint))
    return maintaining


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
