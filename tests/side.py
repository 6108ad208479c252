"""One input of a random trace: its rows, cut into files, as a stream for Spark and as a table for DuckDB."""

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

# Spark's names of the join types, and DuckDB's.
TYPES = {
    "inner": "INNER",
    "left_outer": "LEFT",
    "right_outer": "RIGHT",
    "full_outer": "FULL",
    "left_semi": "SEMI",
    "left_anti": "ANTI",
}
START = datetime(2026, 1, 1, tzinfo=UTC)

# Key, time, value, id.
Row = tuple[int | None, datetime | None, int, int]


@dataclass
class Side:
    """One input of a trace."""

    name: str
    delay: int
    files: list[list[Row]]
    late: set[int]

    def schema(self) -> pa.Schema:
        """Return the columns: key, time, value, id."""
        types = (pa.int32(), pa.timestamp("us", tz="UTC"), pa.int32(), pa.int32())
        return pa.schema(list(zip((f"{self.name}{c}" for c in "ktvi"), types, strict=True)))

    def table(self, rows: list[Row]) -> pa.Table:
        """Return rows as a table."""
        columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
        return pa.table(columns, schema=self.schema())

    def stream(self, spark: SparkSession, folder: Path) -> DataFrame:
        """Write the files and return them as a stream, one file per batch."""
        target = folder / self.name
        target.mkdir()
        for number, rows in enumerate(self.files):
            path = target / f"{number}.parquet"
            pq.write_table(self.table(rows), path)
            # Spark's file source takes files in the order of their modification times.
            os.utime(path, (START.timestamp() + number,) * 2)
        schema = f"{self.name}k INT, {self.name}t TIMESTAMP, {self.name}v INT, {self.name}i INT"
        stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(target))
        return stream.withWatermark(f"{self.name}t", f"{self.delay} seconds")
