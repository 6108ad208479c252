"""Maintains two arrangements and reads them by a delta join on a small cluster of processes, step by step.

A step adds a file to each input and waits until all queries have read it. What goes wrong on purpose:

- in step 1, the first attempts of a task of a maintaining query and of a task of the join fail after they have passed
  on some of their rows;
- one of the two executors is killed while the queries are at step 3, by ``--lose worker`` together with its worker.

The changes of the join, and what its look-ups have loaded, are written to ``<output>/<step>.json``. At the end, the
rows of the arrangements are written to ``<output>/<name>.json``.
"""

import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from delta_job import SCHEMAS, arrange, joined, versions
from job import REQUIRED, arguments, quiet_session
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

RETRIED = 1
KILLED = 3


def main() -> None:
    """Run all steps."""
    lose = {"choices": ["executor", "worker"], "default": "executor"}
    partitions: dict[str, Any] = {"type": int, "default": 2}
    args = arguments(__doc__, "input", "output", master=REQUIRED, partitions=partitions, lose=lose)
    settings = {
        "spark.executor.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        # However busy the machine is, a task waits for the executor that has its index, if there is
        # one.
        "spark.locality.wait": "15s",
        "spark.streamjoin.arrangements": str(args.output / "arrangements"),
        "spark.streamjoin.partitions": str(args.partitions),
    }
    spark = quiet_session(settings, args.master)
    live = args.output / "live"
    streams = {name: stream(spark, live / name, schema) for name, schema in SCHEMAS.items()}
    # By the key of the arrangement: the function then runs in the task that writes the changes.
    row = 3 if args.partitions == 2 else 1
    fails = F.udf(failing_once(args.output / "maintainer", row), "int")
    streams["b"] = streams["b"].repartition(args.partitions, "id").withColumn("n", fails("n"))
    queries = [
        arrange(rows, name).start(checkpointLocation=str(args.output / "checkpoints" / name))
        for name, rows in streams.items()
    ]
    found: list[list[object]] = []

    def take(rows: DataFrame, _: int) -> None:
        same = F.udf(failing_once(args.output / "join", row), "int")
        found.extend(list(row) for row in rows.withColumn("n", same("n")).collect())

    checkpoint = str(args.output / "checkpoints" / "join")
    queries.append(joined().writeStream.foreachBatch(take).start(checkpointLocation=checkpoint))

    seen = 0
    told: set[int] = set()
    for step in range(len(list((args.input / "a").iterdir()))):
        if step == RETRIED:
            for name in ("maintainer", "join"):
                (args.output / f"{name}.wanted").touch()
        for name in SCHEMAS:
            shutil.copy2(args.input / name / f"{step}.json", live / name / f"_{step}.json")
            (live / name / f"_{step}.json").rename(live / name / f"{step}.json")
        before = executors(spark)
        killing = threading.Timer(0.5, kill_executor, (spark, args.output, args.lose == "worker"))
        if step == KILLED:
            killing.start()
        for query in queries:
            query.processAllAvailable()
        if step == KILLED:
            killing.join()
            wait_for_another(spark, before, fewer=args.lose == "worker")
        group = str(queries[-1].runId)
        # An idle query repeats its last report.
        progress = [each for each in queries[-1].recentProgress if "addBatch" in each.durationMs]
        loaded = [int(source.metrics.get("loadedRows", 0)) for each in progress[seen:] for source in each.sources]
        seen = len(progress)
        stages = tasks_of(spark, group)
        tasks = [stages[stage] for stage in stages.keys() - told]
        told |= stages.keys()
        written = {"changes": found, "loaded": sum(loaded), "tasks": tasks}
        (args.output / f"{step}.json").write_text(json.dumps(written))
        found.clear()
    for query in queries:
        query.stop()
    for name in SCHEMAS:
        (args.output / f"{name}.json").write_text(json.dumps(versions(name)))
    spark.stop()


def stream(spark: SparkSession, folder: Path, schema: str) -> DataFrame:
    """Return the stream of a folder, which is empty so far."""
    folder.mkdir(parents=True)
    return spark.readStream.schema(schema).json(str(folder))


def failing_once(mark: Path, row: int) -> Callable[[int | None], int | None]:
    """Return a function of a number, which fails once, at a row of a first attempt, when ``<mark>.wanted`` is there.

    Another attempt of the task leaves ``<mark>.again``.
    """
    calls = {"task": -1, "rows": 0}

    def same(number: int | None) -> int | None:
        context = TaskContext.get()
        if context is None or not mark.with_suffix(".wanted").exists():
            return number
        if context.attemptNumber() > 0:
            mark.with_suffix(".again").touch()
            return number
        if calls["task"] != context.taskAttemptId():
            calls.update(task=context.taskAttemptId(), rows=0)
        calls["rows"] += 1
        if calls["rows"] == row and not mark.with_suffix(".failed").exists():
            mark.with_suffix(".failed").touch()
            raise RuntimeError("failed on purpose")
        return number

    return same


def tasks_of(spark: SparkSession, group: str) -> dict[int, int]:
    """Return the number of tasks in each stage of a query that Spark still knows."""
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = {stage for job in jobs if job is not None for stage in job.stageIds}
    return {stage: info.numTasks for stage in stages if (info := tracker.getStageInfo(stage)) is not None}


def executors(spark: SparkSession) -> set[str]:
    """Return the places of the executors that Spark knows, and of the driver."""
    keys = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().keys()
    return set(keys.mkString(",").split(","))


def wait_for_another(spark: SparkSession, before: set[str], fewer: bool) -> None:
    """Wait until an executor has been replaced, or removed if there are fewer."""
    deadline = time.monotonic() + 60
    while (now := executors(spark)) == before or len(now) != len(before) - fewer:
        assert time.monotonic() < deadline, f"there were {before}, and there are {now}"
        time.sleep(0.1)


def kill_executor(spark: SparkSession, output: Path, with_worker: bool) -> None:
    """Kill one of the executors: processes of this machine whose command line names the application.

    Its worker, which has started it, would start another one.
    """
    application = spark.sparkContext.applicationId
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_text()
            except OSError:
                continue
            if "CoarseGrainedExecutorBackend" in command and application in command:
                if with_worker:
                    os.kill(parent(entry), signal.SIGKILL)
                os.kill(int(entry.name), signal.SIGKILL)
                (output / "executor.lost").touch()
                return
    raise AssertionError(f"no executor of {application} was found")


def parent(process: Path) -> int:
    """Return the id of the worker that has started an executor."""
    worker = (process / "stat").read_text().rpartition(")")[2].split()[1]
    assert "deploy.worker.Worker" in Path(f"/proc/{worker}/cmdline").read_text()
    return int(worker)


if __name__ == "__main__":
    main()
