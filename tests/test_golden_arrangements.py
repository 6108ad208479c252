"""Arrangements that earlier builds wrote are read and continued, and then changed.

``golden/make_arrangements.py`` made the archives, each with the build of its format.
"""

import json
import os
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from golden.make_arrangements import BEFORE, FILES, FOLDER, KEYS, SCHEMAS, maintain, stream
from pyspark.sql import SparkSession
from queries import settings

import streamjoin as sj

ARCHIVES = sorted(Path(__file__).with_name("golden").glob("arrangements-*.tar.gz"))
Rows = Counter[tuple[Any, ...]]


class Restored:
    """An arrangement of an archive, with the query that maintains it."""

    def __init__(self, spark: SparkSession, archive: Path, name: str, folder: Path) -> None:
        self.spark, self.name, self.folder = spark, name, folder
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
        for path in folder.glob("checkpoints/*/sources/0/*"):
            path.write_text(path.read_text().replace(str(FOLDER), str(folder)))
        # One file after the other is moved to the input.
        self.later = [folder / "after" / name / f"{number}.json" for number in range(BEFORE, FILES)]

    def feed(self, **more: str) -> None:
        """Run the query for the next file, with more columns if there are any."""
        file = self.later.pop(0)
        os.utime(file.rename(self.folder / "before" / self.name / file.name), (1_800_000_000 - len(self.later),) * 2)
        rows = stream(self.spark, self.folder / "before", self.name)
        added = rows.selectExpr("*", *(f"{value} AS {column}" for column, value in more.items()))
        maintain(self.spark, self.folder, self.name, added).awaitTermination()

    @property
    def arrangement(self) -> sj.Arrangement:
        return sj.arrangement(str(self.folder / "arrangements" / self.name), spark=self.spark)

    def rows(self, version: int | None = None) -> Rows:
        """Return the rows of a version, of the columns that it had in the beginning."""
        columns = [column.split()[0] for column in SCHEMAS[self.name].split(", ")]
        kept = [column for column in columns if column not in ("op", "n")]
        return Counter(map(tuple, self.arrangement.toDF(version=version).select(*kept).collect()))

    def expected(self, files: int) -> Rows:
        """Return the rows after so many files."""
        lines = [
            json.loads(line)
            for number in range(files)
            for path in self.folder.glob(f"*/{self.name}/{number}.json")
            for line in path.read_text().splitlines()
        ]
        if self.name == "accounts":
            by_id: dict[Any, tuple[Any, ...]] = {}
            for line in lines:
                by_id.pop(line["id"], None)
                if line["op"] != "delete":
                    by_id[line["id"]] = (line["id"], line["owner"], line["cents"])
            return Counter(by_id.values())
        if self.name == "sales":
            return Counter((line["id"], line["item"]) for line in lines)
        found: Rows = Counter()
        for line in lines:
            found[line["item"], line["place"]] += line["n"]
        return found


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name)
def test_read_continued_and_changed(archive: Path, name: str, spark: SparkSession, tmp_path: Path) -> None:
    of = Restored(spark, archive, name, tmp_path)
    assert of.arrangement.keys == KEYS[name]
    for version in range(BEFORE):
        assert of.rows(version) == of.expected(version + 1), version
    of.feed()
    assert of.rows() == of.expected(BEFORE + 1)
    # Other partitions and another column, in files that the build of the archive does not read.
    with settings(spark, {"spark.streamjoin.partitions": "3", "spark.streamjoin.evolve": "allow"}):
        of.feed(more="CAST(1 AS INT)")
    assert of.rows() == of.expected(FILES)
    assert of.arrangement.toDF().where("more IS NOT NULL").count() > 0
    assert of.rows(BEFORE - 1) == of.expected(BEFORE)
