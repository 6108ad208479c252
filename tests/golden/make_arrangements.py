"""Writes golden arrangements of the format at hand: ``arrangements-<number>.tar.gz`` next to this file.

It has an arrangement of each kind, with the checkpoint of the query that maintains it, stopped in the middle, and all
of its input. ``test_golden_arrangements.py`` reads and continues them. The archive of format 1 was made by a build that
knew no other (2d2181d9). An archive never changes. Checkpoints contain the path of their input, so they are made in a
folder that is the same on all machines.
"""

import json
import os
import random
import sys
import tarfile
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import streamjoin as sj

HERE = Path(__file__).parent
FOLDER = Path("/tmp/streamjoin-golden-arrangements")
FILES = 6
BEFORE = 4
SCHEMAS = {
    "accounts": "id INT, owner STRING, cents INT, op STRING",
    "sales": "id INT, item STRING",
    "stock": "item STRING, place STRING, n BIGINT",
}
KEYS = {"accounts": [["id"], ["owner"]], "sales": [["item"]], "stock": [["item", "place"]]}
OWNERS = ["Ada", "Eve", "Tom", None]
Row = dict[str, Any]


def main(number: str) -> None:
    """Make an archive; an existing one is never written over."""
    archive = HERE / f"arrangements-{number}.tar.gz"
    assert not archive.exists(), f"{archive.name} is there already, and stays as it is"
    folder = FOLDER
    folder.mkdir()
    chance = random.Random(3)
    for number_of_file in range(FILES):
        part = "before" if number_of_file < BEFORE else "after"
        for name in SCHEMAS:
            write(folder / part / name, number_of_file, rows(name, number_of_file, chance))
    common = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "UTC"}
    builder = SparkSession.builder.master("local[2]")
    for key, value in common.items():
        builder = builder.config(key, value)
    spark = sj.configure(builder).getOrCreate()
    for name in SCHEMAS:
        maintain(spark, folder, name, stream(spark, folder / "before", name)).awaitTermination()
    spark.stop()
    with tarfile.open(archive, "x:gz") as tar:
        tar.add(folder, arcname=".", filter=lambda one: None if one.name.endswith(".crc") else one)


def stream(spark: SparkSession, files: Path, name: str) -> DataFrame:
    """Return the stream of an arrangement's rows, one file per batch."""
    return spark.readStream.schema(SCHEMAS[name]).option("maxFilesPerTrigger", 1).json(str(files / name))


def maintain(spark: SparkSession, folder: Path, name: str, df: DataFrame) -> StreamingQuery:
    """Run the query that maintains an arrangement until the end of its input."""
    column = {"accounts": {"op": "op"}, "stock": {"diff": "n"}}.get(name, {})
    writer = sj.arrange(df, str(folder / "arrangements" / name), keys=KEYS[name], **column)
    return writer.trigger(availableNow=True).start(checkpointLocation=str(folder / "checkpoints" / name))


def rows(name: str, number: int, chance: random.Random) -> list[Row]:
    """Return the rows of a file."""
    if name == "sales":
        return [{"id": 100 * number + i, "item": f"item {chance.randrange(4)}"} for i in range(10)]
    if name == "stock":
        places = [(f"item {i % 3}", f"place {i // 3}") for i in range(6)]
        return [{"item": item, "place": place, "n": chance.choice([1, 2, 3])} for item, place in places]
    changes = []
    for account in chance.sample(range(20), 10):
        values = {"owner": chance.choice(OWNERS), "cents": chance.randrange(1000)}
        is_deletion = number > 0 and chance.random() < 0.3
        changes.append({"id": account, "op": "delete"} if is_deletion else {"id": account, **values, "op": "update"})
    return changes


def write(folder: Path, number: int, lines: list[Row]) -> None:
    """Write one file; Spark takes files in the order of their modification times."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{number}.json"
    path.write_text("".join(json.dumps(row) + "\n" for row in lines))
    os.utime(path, (1_767_225_600 + number,) * 2)


if __name__ == "__main__":
    main(sys.argv[1])
