"""Random change files for the arrangements of ``jobs/delta_job.py``, and the rows that these and their join have."""

import random
import string
from collections import Counter
from pathlib import Path

from queries import write_file

Rows = Counter[tuple[object, ...]]


class Changelogs:
    """Change files of ``a``, a changelog, and of ``b``, counted rows; the same for the same seed."""

    def __init__(self, folder: Path, files: int, seed: int, payload: int) -> None:
        self.folder = folder
        chance = random.Random(seed)
        self.a = [self._of_a(number, payload, chance) for number in range(files)]
        present: Rows = Counter()
        self.b = [self._of_b(present, chance) for _ in range(files)]
        for name, changes in (("a", self.a), ("b", self.b)):
            for number, rows in enumerate(changes):
                write_file(folder / name / f"{number}.json", rows, number)

    @staticmethod
    def _of_a(number: int, payload: int, chance: random.Random) -> list[dict[str, object]]:
        """Return changes, some of them in a later file than newer changes of their key."""

        def at(i: int) -> int:
            late = chance.random() < 0.2
            return (chance.randrange(number + 1) if late else number) * 100_000 + (
                number * 20 + i if late else 90_000 + i
            )

        return [
            {
                "id": chance.randrange(40),
                "k": chance.choice([None, *range(12)]),
                "payload": "".join(chance.choices(string.ascii_letters, k=payload)),
                "at": at(i),
                "op": chance.choice(["insert", "update", "update", "delete"]),
            }
            for i in range(20)
        ]

    @staticmethod
    def _of_b(present: Rows, chance: random.Random) -> list[dict[str, object]]:
        """Return rows that are added and removed; only existing rows are removed."""
        changes = []
        for _ in range(20):
            rows = sorted(present.elements(), key=str)
            if rows and chance.random() < 0.4:
                row = chance.choice(rows)
                copies = -1
            else:
                row = (chance.randrange(30), chance.choice([None, *range(12)]), chance.randrange(4))
                copies = chance.randrange(1, 3)
            present[row] += copies
            changes.append(dict(zip(("id", "k", "n", "d"), (*row, copies), strict=True)))
        return changes

    def rows_of_a(self, files: int) -> Rows:
        """Return id, k and at of the rows after this many files."""
        changes = [row for rows in self.a[:files] for row in rows]
        last = {row["id"]: row for row in sorted(changes, key=lambda row: int(str(row["at"])))}
        return Counter((row["id"], row["k"], row["at"]) for row in last.values() if row["op"] != "delete")

    def rows_of_b(self, files: int) -> Rows:
        """Return id, k and n of the rows after this many files."""
        now: Rows = Counter()
        for row in (row for rows in self.b[:files] for row in rows):
            now[row["id"], row["k"], row["n"]] += int(str(row["d"]))
        return +now

    def rows(self, name: str, files: int) -> Rows:
        """Return the rows of ``a`` or ``b`` after this many files."""
        return self.rows_of_a(files) if name == "a" else self.rows_of_b(files)

    def join(self, files_of_a: int, files_of_b: int) -> Rows:
        """Return the join, as ``joined`` of the job defines it."""
        result: Rows = Counter()
        for (a_id, a_k, at), copies in self.rows_of_a(files_of_a).items():
            for (b_id, b_k, n), more in self.rows_of_b(files_of_b).items():
                if a_k is not None and a_k == b_k and int(str(a_id)) % 3 != n:
                    result[a_id, at, b_id, n] += copies * more
        return result


def added(changes: list[list[object]], to: Rows) -> Rows:
    """Return the rows after changes, whose last column is the number of copies added or removed."""
    sums = Counter(to)
    for row in changes:
        sums[tuple(row[:-1])] += int(str(row[-1]))
    return Counter({row: copies for row, copies in sums.items() if copies != 0})
