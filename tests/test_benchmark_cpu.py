"""How the benchmarks divide CPU time: threads by their names, samples by their stacks."""

import pytest
from harness.cpu import (
    DRIVER,
    GC,
    JIT,
    JOIN,
    OTHER,
    PLANNING,
    SHUFFLE,
    SPENT,
    TASK,
    Sample,
    divided,
    kind_of,
    samples,
    spent_on,
    thread_ticks,
)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Executor task launch worker for task 0.0 in stage 1.0 (TID 1)", "tasks"),
        ("Executor task l", "tasks"),
        ("Executo..(TID 1)", "tasks"),
        ("executor-heartb", OTHER),
        ("stream executio", "query"),
        ("stream execution thread for [id = 1, runId = 2]", "query"),
        ("streaming-job-e", OTHER),
        ("C2 CompilerThre", JIT),
        ("C1 Comp..read0", JIT),
        ("Sweeper thread", JIT),
        ("GC Thread#0", GC),
        ("G1 Conc#0", GC),
        ("VM Thread", GC),
        ("VM Periodic Tas", OTHER),
        ("dag-scheduler-e", OTHER),
    ],
)
def test_a_thread_is_known_by_its_name(name: str, kind: str) -> None:
    assert kind_of(name) == kind


SQL = "org.apache.spark.sql"
STAGE = f"{SQL}.catalyst.expressions.GeneratedClass$GeneratedIteratorForCodegenStage1.processNext"
WRITER = "org.apache.spark.shuffle.sort.UnsafeShuffleWriter.write"
ROOT_OF_TASK = "org.apache.spark.executor.Executor$TaskRunner.run"
TASK_THREAD = "Executor task launch worker for task 0.0 in stage 1.0 (TID 1)"


@pytest.mark.parametrize(
    ("frames", "spent"),
    [
        (["java.util.Arrays.copyOf", f"{SQL}.streamjoin.state.Index.add", ROOT_OF_TASK], JOIN),
        ([f"{SQL}.execution.streaming.state.HDFSBackedStateStoreMap.put", ROOT_OF_TASK], JOIN),
        ([f"{SQL}.execution.streaming.operators.stateful.join.SymmetricHashJoinStateManagerV1.append"], JOIN),
        # The join pulls its input through the shuffle.
        (
            ["net.jpountz.lz4.LZ4BlockInputStream.read", "org.apache.spark.storage.BufferReleasingInputStream.read",
             f"{SQL}.streamjoin.operator.Task.run"],
            SHUFFLE,
        ),
        # The shuffle pulls the scan.
        (["org.apache.parquet.column.Reader.read", f"{SQL}.execution.datasources.FileScanRDD.next", WRITER], TASK),
        (["java.lang.String.hashCode", STAGE, WRITER, ROOT_OF_TASK], TASK),
        (["org.apache.spark.unsafe.Platform.copyMemory", WRITER, ROOT_OF_TASK], SHUFFLE),
        ([f"{SQL}.execution.streaming.operators.stateful.EventTimeWatermarkExec.add", WRITER], TASK),
        (["java.io.ObjectInputStream.readObject", "org.apache.spark.serializer.JavaSerializerInstance.read"], TASK),
        (["org.codehaus.janino.Parser.parse", f"{SQL}.streamjoin.operator.Task.run"], PLANNING),
        (["java.lang.Thread.run"], TASK),
        ([], TASK),
    ],
)  # fmt: skip
def test_a_stack_of_a_task_is_classified(frames: list[str], spent: str) -> None:
    assert spent_on(Sample(TASK_THREAD, frames)) == spent


@pytest.mark.parametrize(
    ("frames", "spent"),
    [
        ([f"{SQL}.catalyst.trees.TreeNode.transformDown", f"{SQL}.execution.QueryExecution.optimizedPlan"], PLANNING),
        ([f"{SQL}.execution.WholeStageCodegenExec.doCodeGen"], PLANNING),
        ([f"{SQL}.streamjoin.rules.batch.Strategy.apply"], PLANNING),
        ([f"{SQL}.streamjoin.files.AtomicCheckpointFileManager.create"], DRIVER),
        ([f"{SQL}.execution.streaming.runtime.ProgressReporter.finishTrigger"], DRIVER),
        (["org.apache.spark.scheduler.DAGScheduler.runJob", f"{SQL}.execution.SparkPlan.collect"], DRIVER),
    ],
)
def test_a_stack_of_the_querys_thread_is_classified(frames: list[str], spent: str) -> None:
    assert spent_on(Sample("stream execution thread for [id = 1]", frames)) == spent


PRINTED = f"""
jdk.ExecutionSample {{
  startTime = 12:00:00.123
  sampledThread = "{TASK_THREAD}" (javaThreadId = 60)
  state = "STATE_RUNNABLE"
  stackTrace = [
    java.util.Arrays.copyOf(byte[], int) line: 3537
    {SQL}.streamjoin.state.Index.add(Object) line: 10
    ...
  ]
}}

jdk.ExecutionSample {{
  startTime = 12:00:00.133
  sampledThread = "main" (javaThreadId = 1)
  state = "STATE_RUNNABLE"
  stackTrace = N/A
}}
"""


def test_the_text_of_a_recording_is_read() -> None:
    assert list(samples(PRINTED.splitlines(keepends=True))) == [
        Sample(TASK_THREAD, ["java.util.Arrays.copyOf", f"{SQL}.streamjoin.state.Index.add"]),
        Sample("main", []),
    ]


def test_samples_divide_the_time_that_the_kernel_counts() -> None:
    tasks = [Sample(TASK_THREAD, [f"{SQL}.streamjoin.A.b"])] * 3 + [Sample(TASK_THREAD, [WRITER])]
    found = divided({"tasks": 8.0, "query": 1.0, JIT: 2.0, OTHER: 0.5}, [*tasks, Sample("main", [])])
    expected = {JOIN: 6.0, SHUFFLE: 2.0, DRIVER: 1.0, JIT: 2.0, OTHER: 0.5}
    assert found == dict.fromkeys(SPENT, 0.0) | expected


def test_the_ticks_of_a_thread_are_read() -> None:
    stat = "123 (C2 (odd) Thre) S 1 2 3 4 5 6 7 8 9 10 250 30 0 0 20 0 1"
    assert thread_ticks(stat) == ("C2 (odd) Thre", 280)
