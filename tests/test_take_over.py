"""Checkpoints that Spark's own join wrote, on each line of Spark from 4.0 on, are taken over.

The archives ``golden/spark-*.tar.xz`` hold queries that were stopped in the middle, their file sinks, and all of the
input; ``golden/make_of_spark.py`` made them, with Spark alone. A line of Spark continues those of its own and of
earlier lines, on the same checkpoint and with the same sink.
"""

import shutil
import tarfile
from collections import Counter
from pathlib import Path

import duckdb
import pytest
from conftest import LINE, LONG, OTHER_LINE, rejected
from golden.make_of_spark import CONDITION, STATES, THIRD, WRITES, joined, logs, start
from pyspark.sql import SparkSession
from queries import settings

GOLDEN = Path(__file__).with_name("golden")
EXACT = {"spark.streamjoin.evolve": "exact"}
PLAIN = {"spark.streamjoin.enabled": "false"}
OURS, SPARKS = "streamIntervalJoin", "symmetricHashJoin"


def state_of(archive: Path) -> str:
    return archive.name.removesuffix(".tar.xz").split("-", 2)[2]


def kinds_of(archive: Path) -> list[str]:
    return WRITES[archive.name.split("-")[1]][state_of(archive)]


# Those that this line of Spark may read.
ARCHIVES = [path for path in sorted(GOLDEN.glob("spark-*.tar.xz")) if path.name.split("-")[1] <= LINE]
CASES = [(path, kind) for path in ARCHIVES if state_of(path) != "format-1" for kind in kinds_of(path)]
# The oldest state and the newest; on the newer lines, the latter has a batch that was planned.
FEW = [CASES[0], CASES[-1]]


class Restored:
    """A query of an archive, with its settings, in a folder of its own."""

    def __init__(self, spark: SparkSession, archive: Path, kind: str, folder: Path) -> None:
        self.spark, self.folder, self.kind = spark, folder, kind
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
        for path in logs(folder):
            path.write_text(path.read_text().replace("FOLDER", str(folder)))
        self.settings = STATES[state_of(archive)]
        self.checkpoint = folder / "checkpoints" / kind

    def feed(self, *numbers: int) -> None:
        """Move later files to the input."""
        for number in numbers:
            for path in self.folder.glob(f"later/*/{number}.json"):
                # With the times of their modification.
                shutil.move(path, self.folder / "input" / path.parent.name)

    def run(self) -> list[str]:
        """Run the query to the end of its input; return which joins have run, one of each batch."""
        query = start(self.spark, self.folder, self.kind)
        query.awaitTermination()
        names = [{each["operatorName"] for each in progress["stateOperators"]} for progress in query.recentProgress]
        return [name for each in names for name in (OURS, SPARKS) if name in each]

    def rows(self) -> Counter[tuple[int | None, ...]]:
        """Return what the file sink has, without the closing rows."""
        output = self.spark.read.json(str(self.folder / "output" / self.kind))
        columns = {"chain": ["lid", "rid", "tid"], "counted": ["start", "n"], "left_semi": ["lid"]}
        rows = output.select(*columns.get(self.kind, ["lid", "rid"])).collect()
        return without_closing(Counter(tuple(row) for row in rows))

    def expected(self) -> Counter[tuple[int | None, ...]]:
        """Return the rows of DuckDB's join of the whole input."""
        side = {name[0]: self.table(name) for name in ("left", "right", "third")}
        unique = "(SELECT DISTINCT ON (lid) * FROM {l})".format(**side)
        query = {
            "chain": f"""SELECT lid, rid, tid
                FROM {side["l"]} JOIN {side["r"]} ON {CONDITION} JOIN {side["t"]} ON {THIRD}""",
            "counted": f"""SELECT (floor(epoch(lt) / 20) * 20)::BIGINT, count(*)
                FROM {side["l"]} LEFT JOIN {side["r"]} ON {CONDITION} GROUP BY 1""",
            "distinct": f"SELECT DISTINCT lid, rid FROM {side['l']} JOIN {side['r']} ON {CONDITION}",
            "unique": f"SELECT lid, rid FROM {unique} LEFT JOIN {side['r']} ON {CONDITION}",
            "left_semi": f"SELECT lid FROM {side['l']} SEMI JOIN {side['r']} ON {CONDITION}",
        }
        how = {"pending": "FULL"}.get(self.kind, self.kind.replace("_", " "))
        simple = f"SELECT lid, rid FROM {side['l']} {how} JOIN {side['r']} ON {CONDITION}"
        return without_closing(Counter(duckdb.execute(query.get(self.kind, simple)).fetchall()))

    def table(self, side: str) -> str:
        files = f"read_json_auto('{self.folder}/*/{side}/*.json')"
        return f"(SELECT * REPLACE ({side[0]}t::TIMESTAMP AS {side[0]}t) FROM {files})"


def without_closing(rows: Counter[tuple[int | None, ...]]) -> Counter[tuple[int | None, ...]]:
    """Leave out the rows of the last file: their ids, and their window."""
    closing = {-1, 1_767_225_600 + 2000}
    return Counter({row: n for row, n in rows.items() if not closing & set(row)})


@pytest.mark.parametrize(("archive", "kind"), CASES if LONG else FEW, ids=lambda each: getattr(each, "name", each))
def test_taken_over(archive: Path, kind: str, spark: SparkSession, tmp_path: Path) -> None:
    query = Restored(spark, archive, kind, tmp_path)
    before, expected = query.rows(), query.expected()
    assert before, "Spark's own join has emitted rows"
    assert before.total() < expected.total(), "and has left some to be emitted"
    query.feed(4, 5)
    with settings(spark, query.settings | EXACT):
        joins = query.run()
    assert joins[-1] == OURS
    # A batch that was planned is run by the join that planned it.
    assert joins.count(SPARKS) == (kind == "pending")
    query.feed(6, 7)
    with settings(spark, query.settings):
        assert set(query.run()) == {OURS}
    assert query.rows() == expected


def listing(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.skipif(OTHER_LINE, reason="the check is the same on all lines")
def test_an_outer_join_in_format_1_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    archive = GOLDEN / "spark-4.0-format-1.tar.xz"
    query = Restored(spark, archive, "inner", tmp_path)
    query.feed(4, 5, 6, 7)
    before = listing(query.checkpoint)
    outer = joined(spark, tmp_path / "input", "left_outer").writeStream.format("noop")
    with settings(spark, query.settings | EXACT):
        rejected("STREAMJOIN_TAKE_OVER.FORMAT", lambda: outer.start(checkpointLocation=str(query.checkpoint)))
    assert listing(query.checkpoint) == before
    with settings(spark, query.settings | PLAIN):
        assert set(query.run()) == {SPARKS}
    assert query.rows() == query.expected()
