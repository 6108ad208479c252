"""Joins three folders of JSON files on a small cluster of processes, in which something goes wrong on purpose.

One query has three joins: a chain, a temporal join that takes the deliveries for the history of a table, and an as-of
join. Every batch writes its rows to ``<output>/<batch>.json``. What may go wrong (``--disturb``, one or more of them):

- ``retry``: the first attempt of a task fails after it has passed on some of its rows;
- ``speculate``: the first attempt of a task is so slow that Spark starts a second one, which it does on another
  host only;
- ``executor``: one of the two executors is killed in the third batch, after tasks have read the output of the temporal
  and the as-of join: the tasks that ran there run once more, after their commits.
"""

import json
import os
import signal
import time
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

from job import REQUIRED, arguments, quiet_session, stream
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import streamjoin as sj


def main() -> None:
    """Run the query to its end."""
    disturb: dict[str, Any] = {"type": lambda names: set(names.split(",")), "default": set()}
    args = arguments(__doc__, "input", "output", disturb=disturb, master=REQUIRED)
    args.output.mkdir(parents=True)

    settings = {
        "spark.executor.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.speculation": str("speculate" in args.disturb).lower(),
        "spark.speculation.interval": "100ms",
        "spark.speculation.quantile": "0.3",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.minTaskRuntime": "500ms",
    }
    spark = quiet_session(settings | dict(args.conf), args.master)
    orders, deliveries, returns = (marked(spark, args.input, name) for name in ("o", "d", "r"))
    first = orders.join(deliveries, F.expr("ok = dk AND dt BETWEEN ot AND ot + INTERVAL 20 SECONDS"), "left_outer")
    chain = first.join(returns, F.expr("dk = rk AND rt BETWEEN dt AND dt + INTERVAL 20 SECONDS"), "left_outer")
    changes = deliveries.withColumn("op", F.expr("IF(di % 7 = 0, 'delete', 'update')"))
    temporal = sj.temporal_join(orders, sj.versions(changes, key="dk", op="op"), F.expr("ok = dk"), "left")
    within: dict[str, Any] = {"direction": "nearest", "tolerance": "8 seconds"}
    closest = sj.asof_join(orders, returns, F.expr("ok = rk"), "left", **within)
    joined = reduce(DataFrame.union, [as_text(each) for each in (chain, temporal, closest)])
    for kind in args.disturb:
        joined = joined.withColumn(kind, F.udf(disturbance(kind, str(args.output)), "int")("oi"))

    def write(rows: DataFrame, batch: int) -> None:
        lines = [row["text"] for row in rows.collect()]
        (args.output / f"{batch}.json").write_text(json.dumps(lines))

    writer = joined.writeStream.foreachBatch(write).trigger(availableNow=True)
    query = writer.start(checkpointLocation=str(args.output / "checkpoint"))
    query.awaitTermination()
    late = sum(s.numRowsDroppedByWatermark for p in query.recentProgress for s in p.stateOperators)
    seen = {mark: len(list(args.output.glob(f"*.{mark}"))) for mark in ("disturbed", "again", "lost")}
    print(json.dumps({"late": late} | seen))
    spark.stop()


def disturbance(kind: str, output: str) -> Callable[[int | None], int | None]:
    """Return a function of an id, for the tasks of the chain and those that read the output of the other joins.

    It disturbs a first attempt once, and leaves a mark; another attempt that reaches the same row leaves one too.
    """

    def same(row_id: int | None) -> int | None:
        context = TaskContext.get()
        if context is None or row_id is None:
            return row_id
        if kind == "executor":
            if context.getLocalProperty("streaming.sql.batchId") == "3":
                kill_own_executor(Path(output, "executor.lost"))
            return row_id
        # One task of a batch: two would take both executors, and leave none for a second attempt.
        if context.partitionId() != 0 or row_id % 100 != 57:
            return row_id
        task, attempt = f"{context.stageId()}-{context.partitionId()}", str(context.taskAttemptId())
        disturbed = Path(output, f"{task}.disturbed")
        if not disturbed.exists():
            disturbed.write_text(attempt)
            if kind == "retry":
                raise RuntimeError("disturbed on purpose")
            time.sleep(30)  # much longer than the second attempt takes, which ends this one
        elif disturbed.read_text() != attempt:
            Path(output, f"{task}.again").touch()
        return row_id

    return same


def kill_own_executor(mark: Path) -> None:
    """Kill the process that started the daemon of this worker; only the first call does so."""
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return
    executor = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1]
    assert "CoarseGrainedExecutorBackend" in Path(f"/proc/{executor}/cmdline").read_text()
    os.kill(int(executor), signal.SIGKILL)


def as_text(joined: DataFrame) -> DataFrame:
    """Return the rows of a join as text, next to the ids of their orders."""
    return joined.select("oi", F.to_json(F.struct("*")).alias("text"))


def marked(spark: SparkSession, folder: Path, name: str) -> DataFrame:
    """Return the stream of a folder with its watermark."""
    rows = stream(spark, folder / name, f"{name}k INT, {name}t TIMESTAMP, {name}i INT")
    return rows.withWatermark(f"{name}t", "5 seconds")


if __name__ == "__main__":
    main()
