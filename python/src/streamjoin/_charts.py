"""Charts of a query's batches, as plotly.js takes them."""

import html
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from streamjoin._series import Figures
from streamjoin._words import instant, length, plotted

_MOST = 2000
"""Batches in a chart: more are thinned out."""


class Chart(NamedTuple):
    """A chart: its place in the page, its title, the words below it, and what plotly draws."""

    name: str
    title: str
    words: str
    data: list[dict[str, Any]]
    layout: dict[str, Any]


def charts(batches: list[Figures], checkpoint: Path | None) -> list[Chart]:
    """Return those charts of a query for which it has figures; its batches are in their order."""
    thinned = batches[:: -(-len(batches) // _MOST)]
    made = [_watermarks(thinned), _state(thinned), _rows(thinned), _phases(thinned)]
    made += [*_lateness(batches), *_distances(batches), *_skew(batches[-1])]
    if checkpoint is not None:
        made.append(_files(checkpoint))
    return [chart for chart in made if chart.data]


def label(operator: Figures, given: Figures | None = None) -> str:
    """Return what an operator or its input is called in a chart, in which plotly reads tags."""
    name = f"{operator['operator']} {operator['title']}"
    return html.escape(name if given is None else f"{name}, {given['name']}", quote=False)


def inputs(batch: Figures) -> Iterator[tuple[Figures, Figures]]:
    """Yield each input of a batch with its operator."""
    for operator in batch["operators"]:
        yield from ((operator, each) for each in operator["inputs"])


def _lines(batches: list[Figures], points: Callable[[Figures], Iterable[tuple[str, Any]]]) -> list[dict[str, Any]]:
    """Return a line for each name: its values over the start of the batches."""
    found: dict[str, tuple[list[str], list[Any]]] = defaultdict(lambda: ([], []))
    for batch in batches:
        for name, value in points(batch):
            found[name][0].append(instant(batch["timestamp"]))
            found[name][1].append(value)
    mode = "lines+markers" if len(batches) < 30 else "lines"
    return [{"type": "scatter", "mode": mode, "name": name, "x": x, "y": y} for name, (x, y) in found.items()]


def _watermarks(batches: list[Figures]) -> Chart:
    def points(batch: Figures, field: str) -> Iterator[tuple[str, str]]:
        for operator, given in inputs(batch):
            for column in given["columns"]:
                if column.get(field) is not None:
                    name = html.escape(f"{column['name']} ({operator['operator']})", quote=False)
                    yield name, plotted(column[field])

    lines = _lines(batches, lambda batch: points(batch, "watermark"))
    newest = _lines(batches, lambda batch: points(batch, "newest"))
    for line in newest:
        line |= {"name": f"newest {line['name']}", "line": {"dash": "dot"}, "visible": "legendonly"}
    return Chart(
        "watermarks",
        "Watermarks by column",
        "A line that stays level behind the others holds them back. In brackets the number of the operator.",
        lines + newest if lines else [],
        {"yaxis": {"title": {"text": "watermark, UTC"}, "type": "date", "automargin": True}, "xaxis": {"type": "date"}},
    )


def _state(batches: list[Figures]) -> Chart:
    lines = _lines(
        batches, lambda batch: ((label(operator, given), given["rowsKept"]) for operator, given in inputs(batch))
    )
    return Chart("state", "Rows in state by input", "", lines, _amount("rows"))


def _rows(batches: list[Figures]) -> Chart:
    lines = _lines(
        batches, lambda batch: ((label(operator, given), given["rowsIn"]) for operator, given in inputs(batch))
    )
    late = _lines(
        batches,
        lambda batch: (
            (f"late: {label(operator, given)}", given["late"]) for operator, given in inputs(batch) if given.get("late")
        ),
    )
    for line in late:
        line["mode"] = "markers"
    return Chart("rows", "Rows that came, by batch", "", lines + late, _amount("rows"))


def _phases(batches: list[Figures]) -> Chart:
    bars = _lines(
        batches,
        lambda batch: (
            (html.escape(phase, quote=False), millis)
            for phase, millis in batch["phasesMs"].items()
            if phase != "triggerExecution"
        ),
    )
    for bar in bars:
        bar["type"] = "bar"
        del bar["mode"]
    trigger = _lines(
        batches, lambda batch: [("trigger's interval", batch["triggerMs"])] if batch.get("triggerMs") else []
    )
    return Chart(
        "phases",
        "Time of a batch by phase",
        "Batches that take longer than the trigger's interval queue.",
        bars + trigger,
        {"barmode": "stack"} | _amount("ms"),
    )


def _buckets(found: Iterable[Figures], value: str) -> list[tuple[int, int, int]]:
    """Return histograms added up: from, to and how many, in order."""
    total: dict[tuple[int, int], int] = defaultdict(int)
    for histogram in found:
        for bucket in histogram["buckets"]:
            total[bucket["fromMs"], bucket["toMs"]] += bucket[value]
    return sorted((start, end, many) for (start, end), many in total.items())


def _histogram(buckets: list[tuple[int, int, int]], limits: dict[str, int], axis: str, y: str) -> tuple[Any, Any]:
    bars = {
        "type": "bar",
        "name": y,
        "x": [(start + end) / 2000 for start, end, _ in buckets],
        "width": [(end - start) / 1000 for start, end, _ in buckets],
        "y": [many for _, _, many in buckets],
    }
    lines = [
        {
            "type": "line",
            "x0": at / 1000,
            "x1": at / 1000,
            "y0": 0,
            "y1": 1,
            "yref": "paper",
            "line": {"color": "#bc4c00"},
        }
        for at in limits.values()
    ]
    notes = [
        {"x": at / 1000, "y": 1, "yref": "paper", "text": name, "showarrow": False, "xanchor": "left", "yanchor": "top"}
        for name, at in limits.items()
    ]
    layout = {"shapes": lines, "annotations": notes, "xaxis": {"title": {"text": axis}, "type": "linear"}}
    return [bars], layout | _amount(y)


def _of_inputs(batches: list[Figures], field: str) -> dict[str, list[Figures]]:
    found = defaultdict(list)
    for batch in batches:
        for operator, given in inputs(batch):
            if given.get(field):
                found[label(operator, given)].append(given[field])
    return found


def _lateness(batches: list[Figures]) -> Iterator[Chart]:
    for number, (name, found) in enumerate(_of_inputs(batches, "lateness").items()):
        buckets = _buckets(found, "rows")
        delay = found[-1].get("delayMs")
        limits = {} if delay is None else {f"delay {length(delay)}": delay}
        data, layout = _histogram(buckets, limits, "seconds behind the newest row before the batch", "rows")
        yield Chart(
            f"lateness-{number}",
            f"How late rows come: {name}",
            delays(buckets, delay),
            data if buckets else [],
            layout,
        )


_LONGEST = 31 * 24 * 3600 * 1000
"""A row that is further behind, in milliseconds, needs another remedy than a longer delay."""


def delays(buckets: list[tuple[int, int, int]], delay: int | None) -> str:
    """Return how many rows would be late with some delays of the watermark, as a sentence."""
    total = sum(many for _, _, many in buckets)
    tried = sorted({end for _, end, _ in buckets if 0 < end <= _LONGEST} | ({delay} if delay is not None else set()))
    if len(tried) > 8:
        step = (len(tried) - 1) / 7
        tried = sorted({tried[round(step * each)] for each in range(8)} | ({delay} if delay is not None else set()))
    said = []
    for each in tried:
        # A bucket that a delay cuts counts in full: at most so many.
        lost = sum(many for _, end, many in buckets if end > each)
        share = f"{lost:,} rows ({lost / total:.2%})" if lost else "no row"
        said.append(f"{length(each)}{' (as it is)' if each == delay else ''}: {share}")
    return f"With a delay of so much at most so many of {total:,} rows are late: {'; '.join(said)}." if said else ""


def _distances(batches: list[Figures]) -> Iterator[Chart]:
    found = defaultdict(list)
    for batch in batches:
        for operator in batch["operators"]:
            if operator.get("distances"):
                found[label(operator)].append(operator["distances"])
    for number, (name, all_distances) in enumerate(found.items()):
        last = all_distances[-1]
        of = html.escape(str(last["of"]), quote=False)
        limits = {
            f"{which} {length(last[field])}": last[field]
            for which, field in (("from", "lowestMs"), ("to", "highestMs"))
            if last.get(field) is not None
        }
        buckets = _buckets(all_distances, "pairs")
        data, layout = _histogram(buckets, limits, f"{of}, in seconds", "pairs")
        yield Chart(
            f"distances-{number}",
            f"How far apart matches are: {name}",
            "Where the bound is much wider than what matches, rows are kept for longer than they are needed.",
            data if buckets else [],
            layout,
        )


def _skew(batch: Figures) -> Iterator[Chart]:
    for operator in batch["operators"]:
        tasks = operator["tasks"]
        if len(tasks["rows"]) > 1 and sum(tasks["rows"]) > 0:
            bars = [
                {"type": "bar", "name": name, "x": list(range(len(tasks[name]))), "y": tasks[name], "yaxis": axis}
                for name, axis in (("rows", "y"), ("ms", "y2"))
            ]
            bars[1] |= {"type": "scatter", "mode": "markers"}
            second = {"title": {"text": "ms"}, "overlaying": "y", "side": "right", "rangemode": "tozero"}
            layout = {"xaxis": {"title": {"text": "task"}}, "yaxis2": second} | _amount("rows")
            yield Chart(
                f"skew-{operator['operator']}",
                f"Rows in state and time by task, last batch: {label(operator)}",
                "A task with most of the rows has a key that is frequent.",
                bars,
                layout,
            )


def _files(checkpoint: Path) -> Chart:
    """Return the files and bytes below each folder of a checkpoint; a query that runs removes some meanwhile."""
    files: dict[str, int] = defaultdict(int)
    size: dict[str, int] = defaultdict(int)
    for file in checkpoint.rglob("*"):
        if file.is_file():
            folder = file.relative_to(checkpoint).parts[0] if file.parent != checkpoint else file.name
            files[folder] += 1
            size[folder] += file.stat(follow_symlinks=False).st_size if file.exists() else 0
    names = [html.escape(name, quote=False) for name in files]
    data = [
        {"type": "bar", "name": "files", "x": names, "y": list(files.values()), "offsetgroup": "1"},
        {"type": "bar", "name": "bytes", "x": names, "y": list(size.values()), "offsetgroup": "2", "yaxis": "y2"},
    ]
    second = {"title": {"text": "bytes"}, "overlaying": "y", "side": "right", "rangemode": "tozero"}
    said = f"{sum(files.values()):,} files, {sum(size.values()):,} bytes."
    layout = {"barmode": "group", "yaxis2": second} | _amount("files")
    return Chart("files", "Files of the checkpoint", said, data if files else [], layout)


def _amount(of: str) -> dict[str, Any]:
    return {"yaxis": {"title": {"text": of}, "rangemode": "tozero"}}
