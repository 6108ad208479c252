"""The files that a row passes through: the classes that a task of a join depends on, as jdeps reads them from a jar.

A task knows its spec, its state and what counts its rows, and no plan: the plan would be sent along, and to change the
path of a row one would have to know the planner. ``python project/lint/row_path.py`` prints the number of files for
each kind of task, and the paths from a task to a plan, if there are any; ``tests/test_row_path.py`` allows none.
"""

import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "org.apache.spark.sql.streamjoin."
TASKS = ("IntervalJoinTask", "OrderTask", "TemporalTask", "RematchTask", "ArrangeTask")
PHYSICAL = "org.apache.spark.sql.execution.SparkPlan"
PLANS = {
    PHYSICAL,
    "org.apache.spark.sql.catalyst.plans.logical.LogicalPlan",
    "org.apache.spark.sql.catalyst.plans.QueryPlan",
}
_DEPENDENCY = re.compile(r"   (\S+)\s+-> (\S+)")

Classes = dict[str, set[str]]
"""The dependencies of each of our classes."""


def classes(jar: Path) -> Classes:
    """Return the dependencies of the classes in a jar, in the order of their names."""
    listed = subprocess.run(
        ["jdeps", "-verbose:class", "-filter:none", jar], check=True, capture_output=True, text=True
    )
    found: defaultdict[str, set[str]] = defaultdict(set)
    for line in listed.stdout.splitlines():
        if match := _DEPENDENCY.match(line):
            found[match[1]].add(match[2])
    return dict(sorted(found.items()))


def path_of(roots: Iterable[str], known: Classes) -> dict[str, str | None]:
    """Return each of our classes that the roots need, with the class that needs it, or None for a root."""
    needed: dict[str, str | None] = dict.fromkeys(roots)
    queue = list(needed)
    for one in queue:
        for other in sorted(known[one]):
            if other in known and other not in needed:
                needed[other] = one
                queue.append(other)
    return needed


def of_task(task: str, known: Classes) -> dict[str, str | None]:
    """Return the classes that a task needs, given the name of its class without its package."""
    return path_of([one for one in known if _file(one).rpartition(".")[2] == task], known)


def plans(needed: dict[str, str | None], known: Classes) -> Iterator[str]:
    """Yield the way from a root to each class that depends on a plan: ``task -> spec -> exec``."""
    for one in needed:
        if known[one] & PLANS:
            way = [one]
            while before := needed[way[0]]:
                way.insert(0, before)
            yield " -> ".join(each.removeprefix(PACKAGE) for each in way)


def files(needed: Iterable[str]) -> set[str]:
    """Return the top-level classes; each of them is in its own file or shares one."""
    return {_file(one) for one in needed}


def _file(name: str) -> str:
    return name.partition("$")[0]


def jar() -> Path:
    """Return the jar of the default line in the Python package."""
    rows = (ROOT / "project" / "spark-lines").read_text().splitlines()
    default = next(row.split()[0] for row in rows if row.endswith(" default"))
    return next((ROOT / "python" / "src" / "streamjoin" / "jars").glob(f"streamjoin-spark{default}_*.jar"))


if __name__ == "__main__":
    known = classes(jar())
    for task in TASKS:
        needed = of_task(task, known)
        print(f"{task}: {len(files(needed))} files")
        for way in plans(needed, known):
            print(f"  a plan: {way}")
    sys.exit(0)
