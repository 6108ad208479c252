"""A run that is done again and again in one process, until it is warm and measured for long enough."""

import itertools
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from harness.runs import Record


def again(run: Callable[[Path], Record], work: Path, same: Sequence[str]) -> Iterator[tuple[float, Record]]:
    """Do a run again and again; yield the seconds after which each began, and its record.

    It ends the process if a run has another result than the first.

    Args:
        run: does it in a folder, a new one each time: a store that is not closed yet may still write into the last one.
        work: the folder with these folders.
        same: what the records of all runs have in common.
    """
    started = time.perf_counter()
    first: Record = {}
    for number in itertools.count():
        begun = time.perf_counter() - started
        record = run(work / str(number))
        first = first or record
        for name in same:
            if record[name] != first[name]:
                sys.exit(f"{name} {first[name]} at first, {record[name]} in run {number + 1}")
        yield begun, record
        shutil.rmtree(work / str(number), ignore_errors=True)


def first_after(times: Sequence[float], seconds: float) -> int:
    """Return the position of the first of consecutive times, in milliseconds, that begins after so many seconds."""
    begins = itertools.accumulate(times, initial=0.0)
    return next((at for at, begin in enumerate(begins) if begin >= 1000 * seconds), len(times))
