"""An interval join of which each auction, or a constant, says how long a bid may follow."""

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from harness.changing import Feed, chance, next_batch_ms
from harness.windows import START


class Auctions:
    """A query that joins bids with the auctions that are open, and its input.

    Args:
        spark: the session.
        work: the folder for its files and its checkpoint.
        rows: auctions in a batch, and bids.
        kept: how many batches are in state.
        lifetime: how long an auction is open, milliseconds.
        until: SQL of the latest time of a bid.
    """

    delay = 4000

    def __init__(self, spark: SparkSession, work: Path, rows: int, kept: int, lifetime: int, until: str) -> None:
        self.spark = spark
        self.rows = rows
        self.lifetime = lifetime
        self.microseconds_a_row = (lifetime + self.delay) * 1000 / (kept * rows)
        self.count = 0
        self.auctions, self.bids = Feed(spark, work / "auctions"), Feed(spark, work / "bids")
        self.put(kept * rows)
        auctions = self.auctions.stream().withWatermark("t", f"{self.delay} milliseconds").alias("a")
        bids = self.bids.stream().withWatermark("t", f"{self.delay} milliseconds").alias("b")
        joined = auctions.join(bids, F.expr(f"a.id = b.auction AND b.t BETWEEN a.t AND {until}"))
        writer = joined.select("a.id", "b.price").writeStream.format("noop")
        self.query = writer.start(checkpointLocation=str(work / "checkpoint"))
        self.query.processAllAvailable()

    def put(self, count: int) -> None:
        """Add a file of each stream; each bid is for an auction that is open."""
        ids = self.spark.range(self.count, self.count + count, 1, 1)
        micros = F.lit(START * 1_000_000) + F.floor(F.col("id") * self.microseconds_a_row)
        end = F.timestamp_micros(micros + self.lifetime * 1000).alias("expires")
        self.auctions.put(ids.select("id", F.timestamp_micros(micros).alias("t"), end))
        open_now = max(1, int(self.lifetime * 1000 / self.microseconds_a_row))
        auction = (F.col("id") - chance(1, open_now)).alias("auction")
        self.bids.put(ids.select(auction, F.timestamp_micros(micros).alias("t"), F.col("id").alias("price")))
        self.count += count

    def batch(self) -> float:
        """Return how long one more batch took."""
        self.put(self.rows)
        return next_batch_ms(self.query)
