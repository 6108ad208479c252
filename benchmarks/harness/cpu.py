"""The CPU time of a query's JVM, by what it is spent on: tasks, shuffle, planning, JIT and garbage collection.

Two measurements give it together. The kernel counts the CPU time of each thread (``/proc``), and the name of a thread
says whether it runs tasks, drives the query, compiles, or collects garbage. This counts everything, native code too. A
JFR recording takes samples of the stacks of threads in Java code. They divide the time of the threads that run tasks,
and of the thread that drives the query: in a stack, the first frame from the top that a rule below knows says what the
thread does. Native code (RocksDB, compression, system calls) has no samples; it counts in proportion to these.

Times of a run with a recording are not used.
"""

import os
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from harness.query import executed, jvm
from harness.runs import Record

# What CPU time is spent on, in the order of the tables.
JOIN = "join and its state"
TASK = "other work of tasks"
SHUFFLE = "shuffle"
PLANNING = "planning and code generation"
DRIVER = "other work of the query's thread"
JIT = "JIT"
GC = "garbage collection"
OTHER = "other threads"
SPENT = (JOIN, TASK, SHUFFLE, PLANNING, DRIVER, JIT, GC, OTHER)

# Kinds of threads by the beginning of their names. The kernel has the first 15 characters, or, from
# JDK 21 on, the first 7 and the last 6 with two dots between.
TASKS, QUERY = "tasks", "query"
THREADS = {
    "Executor task": TASKS,
    "stream execution": QUERY,
    "C1 Compiler": JIT,
    "C2 Compiler": JIT,
    "Sweeper": JIT,
    "GC Thread": GC,
    "G1 ": GC,
    # Runs what the collector does while all other threads stand still.
    "VM Thread": GC,
}
NAME_PART = 7

_SQL = r"org\.apache\.spark\.sql\."
_STREAMING = rf"{_SQL}execution\.streaming\."
# The compiler of generated code runs in whichever thread first needs a class.
_COMPILING = (re.compile(rf"org\.codehaus\.|{_SQL}catalyst\.expressions\.codegen\.CodeGenerator\b"), PLANNING)
RULES: dict[str, list[tuple[re.Pattern[str], str]]] = {
    TASKS: [
        _COMPILING,
        (
            re.compile(
                rf"{_SQL}streamjoin\.|streamjoin\.core\.|org\.rocksdb\."
                rf"|{_STREAMING}state\.|{_STREAMING}operators\.stateful\.join\."
            ),
            JOIN,
        ),
        # Tasks are sent as serialized objects.
        (re.compile(r"org\.apache\.spark\.serializer\.Java"), TASK),
        (
            re.compile(
                r"org\.apache\.spark\.(shuffle|storage|network|serializer|io|util\.collection)\."
                rf"|{_SQL}execution\.(exchange\.|ShuffledRowRDD|UnsafeRowSerializer)"
            ),
            SHUFFLE,
        ),
        (
            re.compile(
                rf"{_SQL}execution\.|{_SQL}catalyst\.expressions\.GeneratedClass\$GeneratedIterator"
                r"|org\.apache\.(parquet|hadoop)\."
            ),
            TASK,
        ),
    ],
    QUERY: [
        _COMPILING,
        (re.compile(rf"{_STREAMING}|{_SQL}streamjoin\.(files|checkpoint|observe)\.|org\.apache\.hadoop\."), DRIVER),
        (re.compile(rf"{_SQL}(catalyst|execution|streamjoin)\."), PLANNING),
        (re.compile(r"org\.apache\.spark\."), DRIVER),
    ],
}
DEFAULTS = {TASKS: TASK, QUERY: DRIVER}


class Sample(NamedTuple):
    """A stack that JFR took.

    Attributes:
        thread: its name.
        frames: class and method of each frame, the top of the stack first.
    """

    thread: str
    frames: list[str]


def kind_of(thread: str) -> str:
    """Return what a thread is for: tasks, the query, JIT, GC or other."""
    return next((kind for name, kind in THREADS.items() if thread.startswith(name[:NAME_PART])), OTHER)


def spent_on(sample: Sample) -> str:
    """Return what a sampled thread does."""
    kind = kind_of(sample.thread)
    if kind not in RULES:
        return kind
    found = (spent for frame in sample.frames for rule, spent in RULES[kind] if rule.match(frame))
    return next(found, DEFAULTS[kind])


def samples(lines: Iterable[str]) -> Iterator[Sample]:
    """Yield the samples of the text that ``jfr print --events jdk.ExecutionSample`` writes."""
    thread: str | None = None
    frames: list[str] = []
    in_stack = False
    for line in lines:
        text = line.strip()
        if text.startswith("sampledThread = "):
            thread = text.split('"')[1] if '"' in text else ""
        elif text.startswith("stackTrace = ["):
            in_stack, frames = True, []
        elif in_stack and text == "]":
            in_stack = False
        elif in_stack and "(" in text:
            frames.append(text.split("(", 1)[0])
        elif line.startswith("}") and thread is not None:
            yield Sample(thread, frames)
            thread, frames = None, []


def divided(seconds: dict[str, float], sampled: Iterable[Sample]) -> dict[str, float]:
    """Return the CPU seconds spent on each thing.

    Args:
        seconds: of each kind of threads.
        sampled: divides those of the threads that run tasks and of the query's thread.
    """
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in RULES}
    for sample in sampled:
        kind = kind_of(sample.thread)
        if kind in RULES:
            counts[kind][spent_on(sample)] += 1
    found = dict.fromkeys(SPENT, 0.0)
    for kind, time_of_kind in seconds.items():
        if kind not in RULES:
            found[kind] += time_of_kind
            continue
        shares = counts[kind] or Counter({DEFAULTS[kind]: 1})
        for spent, count in shares.items():
            found[spent] += time_of_kind * count / shares.total()
    return found


def thread_ticks(stat: str) -> tuple[str, int]:
    """Return the name of a thread and the ticks of CPU time that it has had, from its ``stat`` of ``/proc``."""
    name, fields = stat.split("(", 1)[1].rsplit(")", 1)
    user, system = fields.split()[11:13]
    return name, int(user) + int(system)


class Threads:
    """The CPU time of a process's threads from a first look on; the last look before a thread ends counts."""

    def __init__(self, pid: int) -> None:
        self.folder = Path("/proc") / str(pid) / "task"
        self.names: dict[str, str] = {}
        self.ticks: dict[str, int] = {}
        self.look()
        self.before = dict(self.ticks)

    def look(self) -> None:
        """Read the time of all threads."""
        for thread in self.folder.iterdir():
            try:
                name, ticks = thread_ticks((thread / "stat").read_text())
            except (FileNotFoundError, ProcessLookupError):
                continue
            # Threads of a pool are renamed for each task.
            if kind_of(name) != OTHER or thread.name not in self.names:
                self.names[thread.name] = name
            self.ticks[thread.name] = ticks

    def seconds(self) -> dict[str, float]:
        """Return the seconds of each kind of threads since the first look."""
        found: Counter[str] = Counter()
        for thread, ticks in self.ticks.items():
            found[kind_of(self.names[thread])] += ticks - self.before.get(thread, 0)
        return {kind: ticks / os.sysconf("SC_CLK_TCK") for kind, ticks in found.items()}


class CpuTime:
    """Measures a query in a session, whose driver has all tasks.

    Args:
        spark: the session.
        work: where the recording is kept while it is read.
    """

    # Stacks of the planner are deep; their upper half says enough.
    SETTINGS: ClassVar = {"spark.driver.extraJavaOptions": "-XX:FlightRecorderOptions=stackdepth=128"}
    PERIOD = "10 ms"

    def __init__(self, spark: SparkSession, work: Path) -> None:
        self.jvm: Any = jvm(spark)
        self.file = work / "cpu.jfr"
        self.pid = int(self.jvm.java.lang.ProcessHandle.current().pid())

    def of(self, query: StreamingQuery, batches: tuple[int, int]) -> Record:
        """Follow a query from one batch to before another, and return what its CPU time was spent on.

        Returns:
            ``seconds`` by what they were spent on, the number of ``samples``, the ``rows`` that the batches read, and
            their ``batchSeconds``.
        """
        begin = self._wait(query, batches[0] - 1)
        recording = self._start()
        threads = Threads(self.pid)
        end = self._wait(query, batches[1] - 1, threads)
        threads.look()
        recording.stop()
        recording.dump(self.jvm.java.io.File(str(self.file)).toPath())
        recording.close()
        query.awaitTermination()
        measured = [batch for batch in executed(query) if begin < batch["batchId"] <= end]
        counted: list[Sample] = list(self._read())
        self.file.unlink()
        return {
            "seconds": divided(threads.seconds(), counted),
            "samples": len(counted),
            "rows": sum(batch["numInputRows"] for batch in measured),
            "batchSeconds": sum(batch["durationMs"]["triggerExecution"] for batch in measured) / 1000,
        }

    def _wait(self, query: StreamingQuery, batch: int, threads: Threads | None = None) -> int:
        """Wait until a batch has ended, or the query; return the last batch that has."""
        last = -1
        while last < batch and query.isActive:
            time.sleep(0.1)
            if threads:
                threads.look()
            progress = query.lastProgress
            last = progress.batchId if progress is not None else last
        return last

    def _start(self) -> Any:
        """Start a recording that takes nothing but samples of stacks."""
        recording = self.jvm.jdk.jfr.Recording()
        recording.setSettings({"jdk.ExecutionSample#enabled": "true", "jdk.ExecutionSample#period": self.PERIOD})
        recording.start()
        return recording

    def _read(self) -> Iterator[Sample]:
        """Yield the samples of the recording."""
        tool = Path(self.jvm.java.lang.System.getProperty("java.home")) / "bin" / "jfr"
        command = [str(tool), "print", "--events", "jdk.ExecutionSample", "--stack-depth", "128", str(self.file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as printing:
            assert printing.stdout is not None
            yield from samples(printing.stdout)
        if printing.returncode:
            raise SystemExit(f"{' '.join(command)}: exit code {printing.returncode}")
