"""The batches of queries in bounded memory: the last ones in full, those before them as points of charts."""

import itertools
import json
import re
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from streamjoin._resources import read_file

Figures = dict[str, Any]
Batches = dict[str, list[Figures]]
"""The figures of each query by its id, the oldest batch first."""
Read = Callable[[], Batches]
"""Returns the figures as they are now, and reads what is new of them."""

FULL_BATCHES = 200
"""Batches of a query that are kept as they are: the last ones."""
MAX_POINTS = 1000
"""Points that stand for the batches before them."""

_BATCH_FIELDS = ("id", "runId", "name", "timestamp", "triggerMs", "phasesMs", "version", "batch")
_DEFINED = json.loads(read_file("figures.json"))["operator"]
_SPANS = {path.split(".")[1]: each["span"] for each in _DEFINED.values() for path in each.get("json", ())}
_SUMS = tuple(name for name, span in _SPANS.items() if span == "batch")
_PEAKS = tuple(name for name, span in _SPANS.items() if span != "batch")
_OPERATOR_FIELDS = ("operator", "kind", "title", *_SPANS)
_INPUT_FIELDS = ("side", "name", "columns", *_SPANS)
_HISTOGRAMS = {"distances": "pairs", "lateness": "rows"}


def parse_line(line: str) -> Any:
    """Return the content of a line of JSON, or None if it is incomplete, as at the end of a file being written."""
    try:
        return json.loads(line)
    except ValueError:
        return None


class QueryBatches:
    """The batches of some queries, which arrive interleaved, in order for each query."""

    def __init__(self, points: int = MAX_POINTS) -> None:
        self._points = points
        self._queries: dict[str, Series] = {}

    def add(self, all_figures: Iterable[Any]) -> "QueryBatches":
        """Add all valid figures, and return this object."""
        for figures in all_figures:
            if isinstance(figures, dict) and "id" in figures and "batch" in figures:
                query = str(figures["id"])
                series = self._queries.get(query)
                if series is None:
                    series = self._queries[query] = Series(points=self._points)
                series.add(figures)
        return self

    def batches(self) -> Batches:
        """Return the batches of each query."""
        return {query: series.batches() for query, series in self._queries.items()}


class Series:
    """The batches of one query.

    A batch that runs again, perhaps after its checkpoint was restored, replaces the batch that it repeats. Batches
    beyond those kept in full become points, and beyond the maximum of points, neighbors become one: ``batches`` says
    how many batches it stands for, ``firstBatch`` and ``firstTimestamp`` where it begins. A point has the sums of rows
    in and out and of histograms, the maximum of what was kept, the times of the slowest batch, and every hint. The
    ``hintBatches`` of an operator or input have the number of batches with each of its hints, the first and the last of
    them. Everything else is that of the last batch. A point has nothing that belongs to a single batch, such as its
    tasks.
    """

    def __init__(self, full: int = FULL_BATCHES, points: int = MAX_POINTS) -> None:
        self._full, self._most = full, points
        self._last: deque[Figures] = deque()
        self._points: list[Figures] = []
        self._width = 1

    def add(self, figures: Figures) -> None:
        """Add the figures of the next batch."""
        first = first_batch(figures)
        while self._last and first_batch(self._last[-1]) >= first:
            self._last.pop()
        if not self._last:
            while self._points and first_batch(self._points[-1]) >= first:
                self._points.pop()
        self._last.append(figures)
        if len(self._last) > self._full:
            oldest = self._last.popleft()
            if self._most:
                self._to_points(oldest)

    def _to_points(self, figures: Figures) -> None:
        if self._points and self._points[-1]["batches"] + figures.get("batches", 1) <= self._width:
            _merge(self._points, _point(figures))
        else:
            self._points.append(_point(figures))
        if len(self._points) > self._most:
            pairs, self._points = self._points, []
            for at, point in enumerate(pairs):
                if at % 2:
                    _merge(self._points, point)
                else:
                    self._points.append(point)
            self._width *= 2

    def batches(self) -> list[Figures]:
        """Return points and batches, oldest first."""
        return [*map(_as_figures, self._points), *self._last]


def first_batch(figures: Figures) -> int:
    """Return the first batch of figures, or of a point."""
    return int(figures["firstBatch"] if "firstBatch" in figures else figures["batch"])


def _point(figures: Figures) -> Figures:
    """Return the point of a batch: the counts of a histogram by bucket, the counts of hints by their words."""
    point = {name: figures[name] for name in _BATCH_FIELDS if name in figures}
    point["batches"] = figures.get("batches", 1)
    point["firstBatch"] = first_batch(figures)
    point["firstTimestamp"] = figures.get("firstTimestamp", figures.get("timestamp"))
    point["operators"] = operators = []
    for operator in figures.get("operators", []):
        copied = {name: operator[name] for name in _OPERATOR_FIELDS if name in operator}
        copied["inputs"] = []
        for side in operator["inputs"]:
            copied_side = {name: side[name] for name in _INPUT_FIELDS if name in side}
            _copy_hints_and_histograms(side, copied_side, figures["batch"])
            copied["inputs"].append(copied_side)
        _copy_hints_and_histograms(operator, copied, figures["batch"])
        operators.append(copied)
    return point


def _copy_hints_and_histograms(source: Figures, target: Figures, batch: int) -> None:
    target["hints"] = {
        without_numbers(hint): (hint, *hint_batches(source, hint, batch)) for hint in source.get("hints", [])
    }
    for name, counted in _HISTOGRAMS.items():
        if name in source:
            buckets = {(each["fromMs"], each["toMs"]): each[counted] for each in source[name]["buckets"]}
            target[name] = {**source[name], "buckets": buckets}


def hint_batches(part: Figures, hint: str, batch: int) -> list[int]:
    """Return the number of batches with a hint of an operator or input of a batch, the first and the last of them."""
    found: list[int] = part.get("hintBatches", {}).get(hint, [1, batch, batch])
    return found


def without_numbers(hint: str) -> str:
    """Return the common form of hints that differ only in numbers and times."""
    return re.sub(r"[\d:.TZ-]+", "#", hint)


def _merge(points: list[Figures], later: Figures) -> None:
    """Combine a point with a later one."""
    earlier = points[-1]
    points[-1] = later
    later["batches"] += earlier["batches"]
    later["firstBatch"], later["firstTimestamp"] = earlier["firstBatch"], earlier["firstTimestamp"]
    if _trigger_ms(earlier) > _trigger_ms(later):
        later["phasesMs"] = earlier["phasesMs"]
    for before, after in _matching(earlier["operators"], later["operators"], "operator", "title"):
        _accumulate(before, after)
        for side_before, side_after in _matching(before["inputs"], after["inputs"], "side", "name"):
            _accumulate(side_before, side_after)


def _trigger_ms(point: Figures) -> float:
    return float(point.get("phasesMs", {}).get("triggerExecution", 0))


def _matching(earlier: list[Figures], later: list[Figures], *names: str) -> list[tuple[Figures, Figures]]:
    """Return the pairs that both have: all, unless the query was changed."""
    known = {tuple(map(each.get, names)): each for each in earlier}
    return [(known[key], each) for each in later if (key := tuple(map(each.get, names))) in known]


def _accumulate(earlier: Figures, later: Figures) -> None:
    for name in _SUMS:
        if name in earlier:
            later[name] = later.get(name, 0) + earlier[name]
    for name in _PEAKS:
        if name in earlier:
            later[name] = max(later.get(name, 0), earlier[name])
    for key, (hint, many, first, last) in earlier["hints"].items():
        words, found, _, until = later["hints"].get(key, (hint, 0, 0, last))
        later["hints"][key] = (words, found + many, first, until)
    for name in _HISTOGRAMS:
        if name in earlier and name in later:
            buckets = later[name]["buckets"]
            for bucket, many in earlier[name]["buckets"].items():
                buckets[bucket] = buckets.get(bucket, 0) + many
        elif name in earlier:
            later[name] = earlier[name]


def _as_figures(point: Figures) -> Figures:
    """Return a point in the form of figures."""

    def convert(part: Figures) -> Figures:
        made = {**part, "hints": [hint for hint, *_ in part["hints"].values()]}
        if made["hints"]:
            made["hintBatches"] = {hint: counted for hint, *counted in part["hints"].values()}
        for name, counted in _HISTOGRAMS.items():
            if name in part:
                buckets = sorted(part[name]["buckets"].items())
                made[name] = {
                    **part[name],
                    "buckets": [{"fromMs": start, "toMs": end, counted: many} for (start, end), many in buckets],
                }
        return made

    operators = [
        {**convert(operator), "inputs": [convert(side) for side in operator["inputs"]]}
        for operator in point["operators"]
    ]
    return {**point, "operators": operators}


def merge_batches(*all_batches: Batches) -> Batches:
    """Return the batches of several locations together; the last location wins."""
    each = itertools.chain.from_iterable(figures for found in all_batches for figures in found.values())
    return QueryBatches().add(each).batches()
