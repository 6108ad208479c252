"""A query that is changed, and killed inside the first batch of the change, neither loses nor doubles a row.

The queries run over the first files; then they are changed, and killed (SIGKILL, the JVM too) at a chosen point of
that batch. A changed query continues, or the one from before. The checkpoints and the output are put back before the
next kill. The rows are those of a plain reading of the law: a pair belongs to the query that runs when its later row
arrives, and a row without any is padded once. A join that is added gets the rows that the lower one emits from then on.
"""

import json
import os
import random
import shutil
import sys
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path

import pytest
from conftest import LONG, printed_seed
from processes import Job
from queries import write_file
from test_restart import other_state

JOB = Path(__file__).with_name("jobs") / "change_job.py"
KILLS = int(os.environ.get("STREAMJOIN_KILLS", "1"))
SINKS, STORES = ["files", "batches"], ["default", "rocksdb"]
QUERIES = [f"{sink}-{store}" for sink in SINKS for store in STORES]
FILES, CHANGED = 12, 5
BEFORE = 5
LONGEST, SHORTER, ABOVE = 40, 12, 10
START = datetime(2026, 1, 1, tzinfo=UTC)
CHANGES = ["rewritten", "bound", "added"]
# What a batch has left, the first and the last included in the order in which that happens.
POINTS = ["nothing", "offsets", "change", "state", "output", "commit"]

Rows = dict[int, tuple[int, int, float]]
Ids = tuple[int | None, ...]
Found = Counter[Ids]


@pytest.mark.skipif(not LONG, reason="a part of make test-long; AddedJoinsSuite has attempts that fail")
def test_killed_inside_the_batch_of_a_change(tmp_path: Path) -> None:
    chance = random.Random(printed_seed())
    inputs = Inputs(
        *({number * 100 + at: _row(number, chance) for number in range(FILES) for at in range(9)} for _ in "lrt")
    )
    # What is added has no row from before: otherwise, the order of the rows of a batch would count.
    inputs.third = {key: row for key, row in inputs.third.items() if row[0] >= CHANGED}
    runs = Runs(tmp_path)
    runs.feed(inputs, range(CHANGED))
    old = [f"--seconds={LONGEST}", "--how=full_outer"]
    runs.job.finish(*old)
    runs.feed(inputs, range(CHANGED, FILES))
    runs.feed_end()
    runs.save()
    before = {query.name: query.rows() for query in runs.queries}
    seen: Counter[str] = Counter()
    for kill, (point, query) in enumerate(zip(_points(), cycle(runs.queries), strict=False)):
        change = CHANGES[kill % len(CHANGES)]
        how = "full_outer" if change == "added" else chance.choice(["full_outer", "left_outer"])
        more = {
            "bound": [f"--seconds={SHORTER}", f"--how={how}"],
            # The rows in state are written again.
            "rewritten": [f"--seconds={SHORTER}", f"--how={how}", "--id=BIGINT", "--key=lk = rk AND lk % 2 = rk % 2"],
            "added": [*old, "--above"],
        }[change]
        # With another number of partitions or state store, all state is written again, too.
        more += other_state(chance) if kill % 2 else []
        runs.restore()
        pause = [f"--pause={query.first}"] if point == "output" else []
        runs.job.kill(lambda query=query, point=point: query.has_reached(point), *more, *pause)  # type: ignore[misc]
        reached = [query.point() for query in runs.queries]
        seen.update(reached)
        if kill % 4 == 3 and not {"output", "commit"} & set(reached):
            more = old
        runs.job.finish(*more)
        for each in runs.queries:
            law = Law() if more == old else Law(how, LONGEST, above=True) if change == "added" else Law(how, SHORTER)
            expected = _expected(inputs, before[each.name], law)
            assert each.rows() == expected, f"kill {kill} at {reached}: {each.name}, {more}"
    print(f"{KILLS} kills: {dict(seen)}")
    assert all(seen[point] for point in POINTS[1:-1][:KILLS]), f"kills were not where they should have been: {seen}"


@dataclass
class Inputs:
    """The rows of each stream."""

    left: Rows
    right: Rows
    third: Rows


@dataclass(frozen=True)
class Law:
    """The changed query: type and bound of the join, and whether there is one above; no type if it was not changed."""

    how: str | None = None
    seconds: int = LONGEST
    above: bool = False


def _points() -> list[str]:
    """Return where to kill: every point inside a batch in turn."""
    return [point for _, point in zip(range(KILLS), cycle(POINTS[1:-1]), strict=False)]


class Runs:
    """The queries of ``jobs/change_job.py``, their input, their checkpoints and their output."""

    def __init__(self, folder: Path) -> None:
        self.input = folder / "input"
        self.queries = [Query(folder, name) for name in QUERIES]
        command = [sys.executable, str(JOB), f"--input={self.input}", f"--output={folder / 'output'}"]
        self.job = Job([*command, f"--checkpoints={folder / 'checkpoints'}", "--queries", *QUERIES], folder / "log")

    def feed(self, inputs: Inputs, numbers: range) -> None:
        (self.input / "third").mkdir(parents=True, exist_ok=True)
        for number in numbers:
            for side, rows in vars(inputs).items():
                self._write(side, number, {key: row for key, row in rows.items() if row[0] == number})

    def feed_end(self) -> None:
        """Add rows that move the watermarks past all others; the second ones let a batch run after that."""
        for number in (FILES, FILES + 1):
            for side, key in (("left", -1), ("right", -2), ("third", -3)):
                self._write(side, number, {-number: (number, key, FILES * 10 + 1000)})

    def _write(self, side: str, number: int, rows: Rows) -> None:
        s = side[0]
        values = [
            {f"{s}k": key, f"{s}t": (START + timedelta(seconds=at)).isoformat(), f"{s}id": row_id}
            for row_id, (_, key, at) in rows.items()
        ]
        write_file(self.input / side / f"{number}.json", values, number)

    def save(self) -> None:
        for query in self.queries:
            query.save()

    def restore(self) -> None:
        for query in self.queries:
            query.restore()


class Query:
    """The checkpoint and the output of a query, and a copy of both from before its change."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name, self.saved = name, folder / "saved" / name
        self.checkpoint, self.output = folder / "checkpoints" / name, folder / "output" / name
        self.first, self.states = 0, 0

    def save(self) -> None:
        shutil.copytree(self.checkpoint, self.saved / "checkpoint")
        shutil.copytree(self.output, self.saved / "output")
        self.first = max(_numbers(self.checkpoint / "commits")) + 1
        self.states = self._states()

    def restore(self) -> None:
        for now, saved in ((self.checkpoint, "checkpoint"), (self.output, "output")):
            shutil.rmtree(now)
            shutil.copytree(self.saved / saved, now)

    def has_reached(self, point: str) -> bool:
        """Return whether the batch of the change has come to a point or further."""
        return POINTS.index(self.point()) >= POINTS.index(point)

    def point(self) -> str:
        """Return the last thing that the batch of the change has left."""
        batch = str(self.first)
        if (self.checkpoint / "commits" / batch).exists():
            return "commit"
        if (self.output / "_spark_metadata" / batch).exists() or list(self.output.glob(f"{batch}/*.json")):
            return "output"
        if self._states() > self.states:
            return "state"
        if self._has_changed():
            return "change"
        return "offsets" if (self.checkpoint / "offsets" / batch).exists() else "nothing"

    def _states(self) -> int:
        """Return the number of files of versions of the state stores."""
        return sum(1 for path in self.checkpoint.glob("stat*/**/[0-9]*.*") if path.is_file()) + sum(
            1 for path in self.checkpoint.glob("stream-join-state/**/[0-9]*.*") if path.is_file()
        )

    def _has_changed(self) -> bool:
        try:
            return _contents(self.checkpoint / "stream-joins") != _contents(self.saved / "checkpoint" / "stream-joins")
        except FileNotFoundError:  # one is being replaced
            return True

    def rows(self) -> Found:
        """Return the rows that the sink has."""
        rows = self._of_files() if self.name.startswith("files") else self._of_batches()
        all_ids = [(row.get("lid"), row.get("rid"), row.get("tid")) for row in rows]
        return Counter(ids for ids in all_ids if all(each is None or each >= 0 for each in ids))

    def _of_files(self) -> list[dict[str, int | None]]:
        logs = [self.output / "_spark_metadata" / str(number) for number in _numbers(self.output / "_spark_metadata")]
        entries = [json.loads(line) for log in logs for line in log.read_text().splitlines()[1:]]
        files = [Path(entry["path"].removeprefix("file:")) for entry in entries]
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def _of_batches(self) -> list[dict[str, int | None]]:
        """Return the rows of every batch; all attempts at a batch must have had the same."""
        rows: list[dict[str, int | None]] = []
        for batch in _numbers(self.output):
            attempts = [json.loads(path.read_text()) for path in (self.output / str(batch)).glob("*.json")]
            same = {json.dumps(sorted(map(json.dumps, attempt))) for attempt in attempts}
            assert len(same) <= 1, f"{self.name}: batch {batch} run again gave other rows"
            rows += attempts[0] if attempts else []
        return rows


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name.isdigit()}


def _numbers(folder: Path) -> list[int]:
    return [int(path.name) for path in folder.iterdir() if path.name.isdigit()]


def _row(number: int, chance: random.Random) -> tuple[int, int, float]:
    """Return the file of a row, its key, and its time: none is late."""
    return number, chance.randrange(3), number * 10 + chance.uniform(-4.9, 10)


def _expected(inputs: Inputs, before: Found, law: Law) -> Found:
    """Return all rows, given those from before the change."""
    lower = Counter(_joined(inputs, before, law))
    if not law.above:
        return Counter((*pair, None) for pair in lower.elements()) + Counter((None, None, row) for row in inputs.third)
    found: list[Ids] = []
    for left, right in (lower - Counter(row[:2] for row in before.elements())).elements():
        own = [] if left is None else [inputs.left[left]]
        later: list[int | None] = [
            row
            for _, key, time in own
            for row, (_, other, at) in inputs.third.items()
            if other == key and time <= at <= time + ABOVE
        ]
        found += [(left, right, row) for row in later or [None]]
    return before + Counter(found)


def _joined(inputs: Inputs, before: Found, law: Law) -> list[Ids]:
    """Return the rows of the lower join."""
    pairs: list[Ids] = []
    for left_id, (left_file, left_key, left_time) in inputs.left.items():
        for right_id, (right_file, right_key, right_time) in inputs.right.items():
            is_changed = law.how is not None and max(left_file, right_file) >= CHANGED
            after = law.seconds if is_changed else LONGEST
            if left_key == right_key and -BEFORE <= right_time - left_time <= after:
                pairs.append((left_id, right_id))
    alone: list[Ids] = [(row, None) for row in inputs.left.keys() - {pair[0] for pair in pairs}]
    unmatched = inputs.right.keys() - {pair[1] for pair in pairs}
    if law.how == "left_outer":  # only what had left before the change
        unmatched &= {row[1] for row in before if row[0] is None}
    return pairs + alone + [(None, row) for row in unmatched]
