"""A row costs what it touches: ``python benchmarks/touched.py``, and ``--smoke`` to try it in a minute.

Each scenario compares a query with a difficulty to the same query without it, in one session, batch by batch in turns:

- ``ties``: an as-of join of one symbol whose times are whole seconds, or spread.
- ``beyond``: an as-of join whose window is larger than ``spark.streamjoin.indexMemory``, or has room in it; facts of
  any key, and facts of keys without a version.
- ``keys``: a temporal join with a table of many keys, or of a hundredth of them, in the default state store.
- ``outer``: a left outer delta join of a key with many rows on each side, few of which match, or the inner join.
- ``behind``: a reader of the changes of an arrangement, many versions behind, or one.
- ``scarce``: a delta join after its indexes ran out of room and have room again, or before that.
- ``partitions``: ten rows for an arrangement with many partitions, or with four.
- ``lifetimes``: an interval join whose rows say how long they live, milliseconds or weeks, or whose condition says it,
  or both.

Medians, and in brackets the least and the most. The table is in ``benchmarks/results/touched.md``.
"""

import argparse
import json
import shutil
import statistics
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from harness.auctions import Auctions
from harness.changing import Feed, chance, maintained, next_batch_ms, session, spread
from harness.machine import described
from harness.windows import ROCKSDB, Case, Run, closest, table
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import streamjoin as sj

RESULTS = Path(__file__).with_name("results") / "touched.md"
WARM_UP = 2


@dataclass(frozen=True)
class Sizes:
    """The size of each scenario."""

    quotes: int = 15_000
    trades: int = 3_000
    versions: int = 1_000_000
    facts: int = 5_000
    memory: str = "16m"
    keys: int = 1_000_000
    hot: int = 12_000
    behind: tuple[tuple[int, int], ...] = ((300, 100), (1_600, 200))
    partitions: tuple[int, ...] = (1_000, 10_000)
    kept: int = 40


SMALL = Sizes(500, 100, 20_000, 200, "1m", 20_000, 200, ((10, 10), (30, 20)), (50, 100), 4)


@dataclass(frozen=True)
class Line:
    """A line of the table.

    Attributes:
        name: of the scenario.
        plain: milliseconds of each batch without the difficulty.
        hard: milliseconds of each batch with it.
        times: the maximum ratio to the time without it; None if there is no such goal.
        most: the maximum of milliseconds; None if there is no such goal.
    """

    name: str
    plain: list[float]
    hard: list[float]
    times: float | None = None
    most: float | None = None

    def text(self) -> str:
        """Return the line."""
        median = statistics.median(self.hard)
        ratio = median / statistics.median(self.plain)
        goal = f"{self.times:g} x" if self.times else f"{self.most:,.0f} ms"
        met = ratio <= self.times if self.times else median <= (self.most or 0)
        shown = f"{spread(self.plain)} | {spread(self.hard)} | {ratio:.2f} | {goal}"
        return f"| {self.name} | {shown} | {'yes' if met else '**no**'} |"


@contextmanager
def settings(spark: SparkSession, **values: str) -> Iterator[None]:
    """Change settings for the queries that are started within the block."""
    named = {name.replace("__", "."): value for name, value in values.items()}
    before = {name: spark.conf.get(name, None) for name in named}
    for name, value in named.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def in_turns(rounds: int, *sides: Callable[[], float]) -> list[list[float]]:
    """Run a batch of each side, several times; return how long they took once they were warm."""
    took: list[list[float]] = [[] for _ in sides]
    for _ in range(WARM_UP + rounds):
        for side, values in zip(sides, took, strict=True):
            values.append(side())
    return [values[WARM_UP:] for values in took]


class Window(Run):
    """A query with a window, whose times may be whole seconds, and whose facts may have keys without a version."""

    def __init__(self, spark: SparkSession, work: Path, case: Case, *, whole: bool = False, known: bool = True) -> None:
        self.whole = whole
        self.known = known
        super().__init__(spark, work, case, 10)

    def timed(self, rows: DataFrame, seconds: Column, key: Column) -> DataFrame:
        """Return versions of a key at a time."""
        return super().timed(rows, F.floor(seconds) if self.whole else seconds, key)

    def put(self, versions: DataFrame, facts: int) -> None:
        """Add the files of a batch."""
        seconds = F.lit(self.now) + F.col("id") * (self.case.batch / facts)
        at = F.timestamp_seconds(F.floor(seconds) if self.whole else seconds)
        key = chance(self.number, self.case.keys) + F.lit(0 if self.known else self.case.keys)
        self.versions.put(versions)
        ids = self.spark.range(0, facts, 1, 1)
        self.facts.put(ids.select(key.alias("key"), at.alias("time"), F.col("id").alias("fact")))
        self.number += 1

    def measured(self) -> float:
        """Return how long one more batch took."""
        self.batch()
        return self.took[-1]


def ties(spark: SparkSession, work: Path, sizes: Sizes, rounds: int) -> list[Line]:
    """Times in whole seconds."""
    case = Case("ties", 60, sizes.quotes, 1, sizes.trades, 1, closest)
    with settings(spark, spark__sql__streaming__noDataMicroBatches__enabled="false"):
        runs = [Window(spark, work / str(whole), case, whole=whole) for whole in (False, True)]
        plain, hard = in_turns(rounds, *(run.measured for run in runs))
    for run in runs:
        run.query.stop()
    return [Line(f"as-of join, {sizes.quotes:,} quotes a second, times in whole seconds", plain, hard, times=2)]


def beyond(spark: SparkSession, work: Path, sizes: Sizes, rounds: int) -> list[Line]:
    """A window that is larger than the memory."""
    seconds = 3_600
    case = Case("beyond", seconds, sizes.versions / seconds, sizes.versions // 5, sizes.facts, 1, closest)
    lines = []
    same = {
        "spark__sql__streaming__noDataMicroBatches__enabled": "false",
        "spark__sql__streaming__stateStore__providerClass": ROCKSDB,
        "spark__sql__shuffle__partitions": "1",
    }
    for facts, known, goal in ((sizes.facts, True, 3), (sizes.facts // 10, True, 3), (sizes.facts, False, 2)):
        runs = []
        for memory in ("1g", sizes.memory):
            with settings(spark, spark__streamjoin__indexMemory=memory, **same):
                folder = work / f"{facts}-{known}-{memory}"
                runs.append(Window(spark, folder, replace(case, facts=facts), known=known))
        plain, hard = in_turns(rounds, *(run.measured for run in runs))
        for run in runs:
            run.query.stop()
        kind = "" if known else " of keys without a version"
        name = f"as-of join, {sizes.versions:,} versions, index memory {sizes.memory}, {facts:,} facts{kind}"
        lines.append(Line(name, plain, hard, times=goal))
    return lines


def keys(spark: SparkSession, work: Path, sizes: Sizes, rounds: int) -> list[Line]:
    """A table with many keys."""
    seconds, runs = 86_400, []
    with settings(spark, spark__sql__streaming__noDataMicroBatches__enabled="false"):
        for count in (sizes.keys // 100, sizes.keys):
            case = Case("keys", seconds, count / seconds, count, sizes.facts, 1, table, in_order=False)
            runs.append(Window(spark, work / str(count), case))
        plain, hard = in_turns(rounds, *(run.measured for run in runs))
    for run in runs:
        run.query.stop()
    return [Line(f"temporal join, {sizes.keys:,} keys, {sizes.facts:,} facts", plain, hard, times=2)]


def follow(frame: Callable[[], DataFrame], checkpoint: Path) -> float:
    """Read all available input; return how long that took."""
    writer = frame().writeStream.format("noop").trigger(availableNow=True)
    query = writer.start(checkpointLocation=str(checkpoint))
    query.awaitTermination()
    return float(sum(progress["durationMs"]["triggerExecution"] for progress in query.recentProgress))


def outer(spark: SparkSession, work: Path, sizes: Sizes, rounds: int) -> list[Line]:
    """One more row of a key that has many on each side."""
    feeds = {name: Feed(spark, work / name) for name in ("l", "r")}
    # None of the rows match, and each new row matches one.
    for name, feed in feeds.items():
        feed.put(spark.range(0, sizes.hot).selectExpr("id", "1 AS k", f"2 * id + {int(name == 'r')} AS v"), "i")
        maintained(feed.stream(), f"outer-{name}", [["id"], ["k"]], work / f"checkpoint-{name}", "op").stop()
    number = 0

    def more() -> None:
        nonlocal number
        number += 1
        feeds["r"].put(spark.range(1).selectExpr(f"{sizes.hot + number}L AS id", "1 AS k", f"{2 * number}L AS v"), "i")
        maintained(feeds["r"].stream(), "outer-r", [["id"], ["k"]], work / "checkpoint-r", "op").stop()

    def batch(how: str) -> float:
        if how == "inner":
            more()
        inputs = {"l": "outer-l", "r": "outer-r"}
        return follow(
            lambda: sj.delta_join(
                inputs, on="l.k = r.k AND l.v = r.v", select=["l.id", "r.id AS rid"], how=how, spark=spark
            ),
            work / f"result-{how}",
        )

    plain, hard = in_turns(rounds, lambda: batch("inner"), lambda: batch("left"))
    return [Line(f"left outer delta join, a key with {sizes.hot:,} rows on each side, one more", plain, hard, times=4)]


def behind(spark: SparkSession, work: Path, sizes: Sizes, rounds: int) -> list[Line]:
    """A reader that is many versions behind; most of them have no changes."""
    lines = []
    for versions, partitions in sizes.behind:
        name = f"behind-{versions}"
        with settings(spark, spark__streamjoin__partitions=str(partitions)):
            feed = Feed(spark, work / name)
            feed.put(spark.range(0, 1000), "i")
            maintained(feed.stream(), name, [["id"]], work / f"checkpoint-{name}", "op").stop()
        folder = work / "arrangements" / name / "versions"

        def batch(more: int, name: str = name, folder: Path = folder) -> float:
            empty_versions(folder, more)
            return follow(lambda: sj.arrangement(name, spark=spark).changes(), work / f"reader-{name}")

        plain, hard = in_turns(rounds, lambda: batch(1), lambda count=versions: batch(count))  # type: ignore[misc]
        most = 1000 if versions <= 300 else 2000
        lines.append(Line(f"a reader {versions:,} versions behind, {partitions} partitions", plain, hard, most=most))
    return lines


def empty_versions(folder: Path, more: int) -> None:
    """Add versions without changes."""
    newest = max(int(path.name) for path in folder.iterdir() if path.name.isdigit())
    manifest = json.loads((folder / str(newest)).read_text())
    manifest["changes"] = []
    manifest["base_files"] = []
    for number in range(newest + 1, newest + more + 1):
        manifest["number"] = number
        if "id" in manifest:
            manifest["previous"], manifest["id"] = manifest["id"], str(uuid.uuid4())
        (folder / str(number)).write_text(json.dumps(manifest))


def scarce(spark: SparkSession, work: Path, sizes: Sizes, rounds: int) -> list[Line]:
    """A join before its memory is exceeded once, and after it suffices again."""
    feed, big = Feed(spark, work / "small"), Feed(spark, work / "big")
    checkpoint = work / "checkpoint-small"
    number = 0

    def put() -> None:
        nonlocal number
        number += 1
        feed.put(spark.range(0, 500).selectExpr("id", f"{number} AS v"), "u")
        maintained(feed.stream(), "scarce", [["id"]], checkpoint, "op").stop()

    def batch() -> float:
        put()
        inputs = {"a": "scarce", "b": "scarce"}
        return follow(
            lambda: sj.delta_join(inputs, on="a.id = b.id", select=["a.id", "b.v"], spark=spark), work / "reader"
        )

    with settings(spark, spark__streamjoin__partitions="50", spark__streamjoin__executorIndexMemory="1g"):
        (plain,) = in_turns(rounds, batch)
        with settings(spark, spark__streamjoin__executorIndexMemory="4m"):
            text = "repeat(sha2(CAST(id AS STRING), 512), 20) AS text"
            big.put(spark.range(0, sizes.hot).selectExpr("id", text), "i")
            maintained(big.stream(), "scarce-big", [["id"]], work / "checkpoint-big", "op").stop()
            sj.arrangement("scarce-big", spark=spark).toDF().write.format("noop").mode("overwrite").save()
            batch()
        (hard,) = in_turns(rounds, batch)
    return [Line("delta join, 50 partitions, after its memory was exceeded once", plain, hard, times=1.5)]


def partitions(spark: SparkSession, work: Path, sizes: Sizes, rounds: int) -> list[Line]:
    """Ten rows for many partitions."""
    sides = []
    for count in (4, *sizes.partitions):
        with settings(spark, spark__streamjoin__partitions=str(count)):
            feed = Feed(spark, work / f"rows-{count}")
            feed.put(spark.range(0, 10).selectExpr("id", "id AS owner", "0 AS cents"), "u")
            name, checkpoint = f"partitions-{count}", work / f"checkpoint-{count}"
            sides.append((feed, maintained(feed.stream(), name, [["id"], ["owner"]], checkpoint, "op")))
    number = 0

    def batch(side: int) -> float:
        nonlocal number
        number += 1
        feed, query = sides[side]
        feed.put(spark.range(0, 10).selectExpr("id", f"{number} AS owner", f"{number} AS cents"), "u")
        return next_batch_ms(query)

    plain, *hard = in_turns(rounds, *(lambda at=at: batch(at) for at in range(len(sides))))
    for _, query in sides:
        query.stop()
    return [
        Line(
            f"ten rows into an arrangement with {count:,} partitions", plain, took, most=1000 if count <= 1000 else 3000
        )
        for count, took in zip(sizes.partitions, hard, strict=True)
    ]


def lifetimes(spark: SparkSession, work: Path, sizes: Sizes, rounds: int) -> list[Line]:
    """Rows that carry how long they live."""
    lines = []
    with settings(spark, spark__sql__streaming__noDataMicroBatches__enabled="false"):
        for name, lifetime in (("300 milliseconds", 300), ("four weeks", 4 * 7 * 86_400 * 1000)):
            constant = f"a.t + INTERVAL {lifetime} MILLISECONDS"
            kinds = {
                f"that carry a lifetime of {name}": "a.expires",
                f"that carry one of {name}, and a constant": f"a.expires AND b.t <= {constant}",
            }
            runs = [
                Auctions(spark, work / f"{lifetime}-{number}", sizes.facts, sizes.kept, lifetime, until)
                for number, until in enumerate((constant, *kinds.values()))
            ]
            plain, *hard = in_turns(rounds, *(run.batch for run in runs))
            for run in runs:
                run.query.stop()
            kept = f"interval join, {sizes.kept * sizes.facts:,} rows"
            lines += [Line(f"{kept} {words}", plain, took, times=1.5) for words, took in zip(kinds, hard, strict=True)]
    return lines


SCENARIOS = {
    scenario.__name__: scenario for scenario in (ties, beyond, keys, outer, behind, scarce, partitions, lifetimes)
}


def main() -> None:
    """Measure what the command line selects, and write the table."""
    parser = argparse.ArgumentParser(description="What a row costs, with and without a difficulty.")
    parser.add_argument("--rounds", type=int, default=5, help="batches of each side, behind two that warm up")
    parser.add_argument("--scenarios", nargs="+", choices=SCENARIOS, default=list(SCENARIOS), help="what is measured")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--work", type=Path, default=Path("build/bench-touched"))
    parser.add_argument("--smoke", action="store_true", help="all of it small, once, to see that it works")
    options = parser.parse_args()
    work = options.work.resolve()
    shutil.rmtree(work, ignore_errors=True)
    if options.smoke and options.results == RESULTS:
        options.results = work / "smoke.md"
    options.results.parent.mkdir(parents=True, exist_ok=True)
    spark = session(work)
    lines = []
    for name in options.scenarios:
        sizes, rounds = (SMALL, 1) if options.smoke else (Sizes(), options.rounds)
        found = SCENARIOS[name](spark, work / name if name != "behind" else work, sizes, rounds)
        lines += [line.text() for line in found]
        print(*lines[-len(found) :], sep="\n", flush=True)
    spark.stop()
    head = described()
    table = [
        "| what | without, ms | with, ms | x | goal | met |",
        "|---|---|---|---|---|---|",
        *lines,
    ]
    options.results.write_text("\n".join(["# A row costs what it touches", "", *head, "", *table]) + "\n")
    shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
