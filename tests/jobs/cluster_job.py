"""Joins three folders of JSON files on a small cluster of processes, in which something goes wrong on purpose.

Every batch writes its rows to ``<output>/<batch>.json``. What may go wrong (``--disturb``,
one or more of them):

- ``retry``: the first attempt of a task fails when it has handed on some of its rows;
- ``speculate``: the first attempt of a task is so slow that Spark starts a second one beside it, which it does on
  another host only;
- ``executor``: one of the two executors is killed after the third batch.
"""

import argparse
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from quiet_session import quiet_session


def main() -> None:
    """Run the query to its end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--disturb", type=lambda names: set(names.split(",")), default=set())
    parser.add_argument("--master", required=True)
    parser.add_argument("--conf", nargs="*", default=[], help="more settings, each as key=value")
    args = parser.parse_args()
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
    spark = quiet_session(settings | dict(setting.split("=", 1) for setting in args.conf), args.master)
    orders, deliveries, returns = (stream(spark, args.input, name) for name in ("o", "d", "r"))
    first = orders.join(deliveries, F.expr("ok = dk AND dt BETWEEN ot AND ot + INTERVAL 20 SECONDS"), "left_outer")
    joined = first.join(returns, F.expr("dk = rk AND rt BETWEEN dt AND dt + INTERVAL 20 SECONDS"), "left_outer")
    for kind in args.disturb & {"retry", "speculate"}:
        joined = joined.withColumn("same", F.udf(disturbance(kind, str(args.output)), "int")("oi"))

    def write(rows: DataFrame, batch: int) -> None:
        lines = [row[0] for row in rows.drop("same").select(F.to_json(F.struct("*"))).collect()]
        (args.output / f"{batch}.json").write_text(json.dumps(lines))
        if "executor" in args.disturb and batch == 3:
            kill_executor(spark, args.output)

    query = (
        joined.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(args.output / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    late = sum(s.numRowsDroppedByWatermark for p in query.recentProgress for s in p.stateOperators)
    seen = {mark: len(list(args.output.glob(f"*.{mark}"))) for mark in ("disturbed", "again", "lost")}
    print(json.dumps({"late": late} | seen))
    spark.stop()


def disturbance(kind: str, output: str) -> Callable[[int | None], int | None]:
    """Return a function of an id, for the tasks of the joins.

    It disturbs a first attempt once, and leaves a mark; another attempt that comes to the same row leaves one too.
    """

    def same(row_id: int | None) -> int | None:
        context = TaskContext.get()
        # One task of a batch: two would take both executors, and leave none for a second attempt.
        if context is None or context.partitionId() != 0 or row_id is None or row_id % 100 != 57:
            return row_id
        task = f"{context.stageId()}-{context.partitionId()}"
        disturbed = Path(output, f"{task}.disturbed")
        if context.attemptNumber() > 0:
            Path(output, f"{task}.again").touch()
        elif not disturbed.exists():
            disturbed.touch()
            if kind == "retry":
                raise RuntimeError("disturbed on purpose")
            time.sleep(30)  # much longer than the second attempt takes, which ends this one
        return row_id

    return same


def stream(spark: SparkSession, folder: Path, name: str) -> DataFrame:
    """Return the stream of a folder, one file a batch."""
    schema = f"{name}k INT, {name}t TIMESTAMP, {name}i INT"
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(folder / name))
    return rows.withWatermark(f"{name}t", "5 seconds")


def kill_executor(spark: SparkSession, output: Path) -> None:
    """Kill one of the executors: processes of this machine whose command line names the application."""
    application = spark.sparkContext.applicationId
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_text()
            except OSError:
                continue
            if "CoarseGrainedExecutorBackend" in command and application in command:
                os.kill(int(entry.name), signal.SIGKILL)
                (output / "executor.lost").touch()
                return
    raise AssertionError(f"no executor of {application} was found")


if __name__ == "__main__":
    main()
