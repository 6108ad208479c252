"""A query that is changed, and killed inside the first batch of the change, neither loses nor doubles a row.

The query runs over the first files; then it is changed, and killed (SIGKILL, the JVM too) after that batch was planned.
The checkpoint and the files of the sink are put back before the next kill. The rows are those of a plain reading of
the law: a pair belongs to the query that runs when its later row arrives, and a row without any is padded once.
"""

import json
import os
import random
import shutil
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from conftest import LONG, printed_seed
from processes import Job
from queries import write_file
from test_restart import other_state

JOB = Path(__file__).with_name("jobs") / "change_job.py"
KILLS = int(os.environ.get("STREAMJOIN_KILLS", "20"))
FILES, CHANGED = 12, 5
BEFORE = 5
LONGEST, SHORTER = 40, 12
START = datetime(2026, 1, 1, tzinfo=UTC)

Rows = dict[int, tuple[int, int, float]]
Pairs = Counter[tuple[int | None, int | None]]


@pytest.mark.skipif(not LONG, reason="a part of make test-long")
def test_killed_inside_the_batch_of_a_change(tmp_path: Path) -> None:
    seed = printed_seed()
    chance = random.Random(seed)
    left, right = (
        {number * 100 + at: _row(number, chance) for number in range(FILES) for at in range(9)} for _ in "lr"
    )
    query = Query(tmp_path)
    query.feed(left, right, range(CHANGED))
    query.job.finish(f"--seconds={LONGEST}", "--how=full_outer")
    before = query.rows()
    query.feed(left, right, range(CHANGED, FILES))
    query.feed_end()
    query.save()
    first, inside = query.committed() + 1, 0
    for kill in range(KILLS):
        how = chance.choice(["full_outer", "left_outer"])
        # With another number of partitions or state store, all state is written again, too.
        more = [f"--seconds={SHORTER}", f"--how={how}", *([] if kill % 2 else other_state(chance))]
        query.restore()
        planned = query.checkpoint / "offsets" / str(first)
        query.job.kill(planned.exists, *more, delay=chance.uniform(0, 0.8))
        inside += query.committed() < first
        query.job.finish(*more)
        assert query.rows() == _expected(left, right, how, before), f"kill {kill}, {more}"
    print(f"{inside} of {KILLS} kills were inside the batch of the change")
    assert inside, "no kill was inside the batch of the change"


class Query:
    """A query of ``jobs/change_job.py``, its input, its checkpoint and the files of its sink."""

    def __init__(self, folder: Path) -> None:
        self.input, self.saved = folder / "input", folder / "saved"
        self.checkpoint, self.output = folder / "checkpoint", folder / "output"
        command = [sys.executable, str(JOB), f"--input={self.input}", f"--output={self.output}"]
        self.job = Job([*command, f"--checkpoint={self.checkpoint}"], folder / "log")

    def feed(self, left: Rows, right: Rows, numbers: range) -> None:
        for number in numbers:
            for side, rows in (("left", left), ("right", right)):
                self._write(side, number, {key: row for key, row in rows.items() if row[0] == number})

    def feed_end(self) -> None:
        """Add rows that move the watermarks past all others; the second ones let a batch run after that."""
        for number in (FILES, FILES + 1):
            for side, key in (("left", -1), ("right", -2)):
                self._write(side, number, {-number: (number, key, FILES * 10 + 1000)})

    def _write(self, side: str, number: int, rows: Rows) -> None:
        s = side[0]
        values = [
            {f"{s}k": key, f"{s}t": (START + timedelta(seconds=at)).isoformat(), f"{s}id": row_id}
            for row_id, (_, key, at) in rows.items()
        ]
        write_file(self.input / side / f"{number}.json", values, number)

    def save(self) -> None:
        for folder in (self.checkpoint, self.output):
            shutil.copytree(folder, self.saved / folder.name)

    def restore(self) -> None:
        for folder in (self.checkpoint, self.output):
            shutil.rmtree(folder)
            shutil.copytree(self.saved / folder.name, folder)

    def committed(self) -> int:
        """Return the last batch that is committed."""
        return max(int(path.name) for path in (self.checkpoint / "commits").iterdir() if path.name.isdigit())

    def rows(self) -> Pairs:
        """Return the rows of the files that the sink has committed."""
        logs = [path for path in (self.output / "_spark_metadata").iterdir() if path.name.isdigit()]
        entries = [json.loads(line) for log in logs for line in log.read_text().splitlines()[1:]]
        lines = [
            line for entry in entries for line in Path(entry["path"].removeprefix("file:")).read_text().splitlines()
        ]
        rows = [json.loads(line) for line in lines]
        pairs = [(row.get("lid"), row.get("rid")) for row in rows]
        return Counter(pair for pair in pairs if all(each is None or each >= 0 for each in pair))


def _row(number: int, chance: random.Random) -> tuple[int, int, float]:
    """Return the file of a row, its key, and its time: none is late."""
    return number, chance.randrange(3), number * 10 + chance.uniform(-4.9, 10)


def _expected(left: Rows, right: Rows, how: str, before: Pairs) -> Pairs:
    pairs: list[tuple[int | None, int | None]] = []
    for left_id, (left_file, left_key, left_time) in left.items():
        for right_id, (right_file, right_key, right_time) in right.items():
            after = SHORTER if max(left_file, right_file) >= CHANGED else LONGEST
            if left_key == right_key and -BEFORE <= right_time - left_time <= after:
                pairs.append((left_id, right_id))
    alone: list[tuple[int | None, int | None]] = [(row, None) for row in left.keys() - {pair[0] for pair in pairs}]
    unmatched = right.keys() - {pair[1] for pair in pairs}
    if how == "left_outer":  # only what had left before the change
        unmatched &= {pair[1] for pair in before if pair[0] is None}
    return Counter(pairs + alone + [(None, row) for row in unmatched])
