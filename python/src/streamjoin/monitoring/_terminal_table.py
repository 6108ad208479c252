"""The figures of queries as a table in a terminal: a line for each input, and the hints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from streamjoin._display.formats import format_bytes, format_duration, format_time
from streamjoin.monitoring._series import Batches, Figures

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table
    from rich.text import Text

_BAR = 24
_WIDE = 10_000
_SPARKS = "▁▂▃▄▅▆▇█"
_BATCHES = 40
"""Of the line of batch times."""


def renderable(queries: Batches) -> RenderableType:
    """Return the table of some queries after their last batches."""
    from rich.console import Group

    parts: list[RenderableType] = []
    for batches in queries.values():
        parts += [_head(batches), *(_FittingTable(operator, batches) for operator in batches[-1]["operators"])]
        parts += [_text(f"! {hint}", "yellow") for hint in _hints(batches[-1])]
    return Group(*parts)


def as_text(queries: Batches, width: int | None = None) -> str:
    """Return the table as plain text, of a given width or as wide as necessary."""
    import io

    from rich.console import Console

    console = Console(file=io.StringIO(), width=width or _WIDE, color_system=None, force_terminal=False)
    with console.capture() as captured:
        console.print(renderable(queries))
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def sparkline(values: list[float]) -> str:
    """Return a line of blocks, the highest for the greatest value.

    Example:
        >>> sparkline([0, 5, 10])
        '▁▅█'
    """
    most = max(values, default=0)
    return "".join(_SPARKS[round(value / most * (len(_SPARKS) - 1)) if most > 0 else 0] for value in values)


def _head(batches: list[Figures]) -> Text:
    last = batches[-1]
    times = [float(batch["phasesMs"].get("triggerExecution", 0)) for batch in batches[-_BATCHES:]]
    trigger = f", one every {format_duration(last['triggerMs'])}" if last.get("triggerMs") else ""
    text = _text(str(last.get("name") or last["id"]), "bold")
    text.append(f"  batch {last['batch']} of {format_time(last['timestamp'])} UTC took {times[-1]:.0f} ms{trigger}  ")
    text.append(sparkline(times), "cyan")
    return text


class _FittingTable:
    """A table of an operator's inputs. It drops columns that do not fit, except what an input waits for."""

    def __init__(self, operator: Figures, batches: list[Figures]) -> None:
        self._operator, self._batches = operator, batches

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        from rich.measure import Measurement

        columns, unlimited = list(_COLUMNS), options.update(max_width=_WIDE)
        for unimportant in (*_UNIMPORTANT, None):
            table = _table(self._operator, self._batches, columns)
            if unimportant is None or Measurement.get(console, unlimited, table).maximum <= options.max_width:
                break
            columns.remove(unimportant)
        yield table


_COLUMNS = ("input", "rows/s", "late", "rows kept", "bytes", "watermark", "lag", "limit to newest", "waits for")
_UNIMPORTANT = ("limit to newest", "bytes", "lag", "rows/s", "late")
"""Columns that are left out where a terminal is too narrow, in this order."""


def _table(operator: Figures, batches: list[Figures], columns: list[str]) -> Table:
    from rich import box
    from rich.table import Table

    kept, index = format_bytes(operator["bytesKept"]), format_bytes(operator["memoryBytes"])
    title = _text(
        f"{operator['operator']} {operator['title']}: {operator['rowsOut']:,} rows out, "
        f"keeps {operator['rowsKept']:,} rows ({kept}, index {index})"
    )
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        right = name in ("rows/s", "late", "rows kept", "bytes")
        wraps = name in ("input", "waits for")
        table.add_column(
            name, justify="right" if right else "left", no_wrap=not wraps, overflow="fold" if wraps else "ellipsis"
        )
    for at, given in enumerate(operator["inputs"]):
        column = (given["columns"] or [{}])[0]
        watermark, newest = column.get("watermark"), column.get("newest")
        cells = (
            _text(given["name"]),
            _text(_rows_per_second(operator["operator"], at, batches)),
            _text(f"{given['late']:,}", "red") if given.get("late") else "",
            _text(f"{given['rowsKept']:,}"),
            _text(format_bytes(given["bytesKept"])),
            _text("none yet" if watermark is None else format_time(watermark)),
            _text("" if watermark is None or newest is None else format_duration(newest - watermark)),
            _text(_bar(given, eviction_limit(operator, given)), "blue"),
            _text(_waits_for(operator, given)),
        )
        table.add_row(*(cell for name, cell in zip(_COLUMNS, cells, strict=True) if name in columns))
    return table


def _rows_per_second(operator: int, at: int, batches: list[Figures]) -> str:
    """Return the rows per second of an input, over the last minute of batches."""
    minute = [batch for batch in batches if batch["timestamp"] >= batches[-1]["timestamp"] - 60_000]
    took = minute[-1]["timestamp"] - minute[0]["timestamp"]
    if took <= 0:
        return ""
    # The rows of a batch arrived before it.
    rows = sum(
        one["inputs"][at]["rowsIn"]
        for batch in minute[1:]
        for one in batch["operators"]
        if one["operator"] == operator and at < len(one["inputs"])
    )
    return f"{rows * 1000 / took:,.1f}"


def eviction_limit(operator: Figures, given: Figures) -> int | None:
    """Return the eviction limit of an input by its first event-time column, or None if no row can leave yet."""
    first = given["columns"][0]["name"] if given["columns"] else None
    limits: list[int] = [
        watermark - each["postponeMs"]
        for each in given["leaves"]
        if each["time"] == first and (watermark := _watermark(operator, each["column"])) is not None
    ]
    return min(limits) if limits else None


def _watermark(operator: Figures, column: str) -> int | None:
    return next((each.get("watermark") for each in _columns(operator) if each["name"] == column), None)


def _columns(operator: Figures) -> Iterator[Figures]:
    for given in operator["inputs"]:
        yield from given["columns"]


def _bar(given: Figures, limit: int | None) -> str:
    """Return a bar from the eviction limit to the newest row, with the rows in state and the watermark."""
    column = (given["columns"] or [{}])[0]
    oldest, newest, watermark = given.get("oldest"), column.get("newest"), column.get("watermark")
    if oldest is None or newest is None or not given["rowsKept"]:
        return ""
    start = min(oldest, limit if limit is not None else oldest)
    span = max(newest - start, 1)

    def place(time: int) -> int:
        return max(0, min(_BAR - 1, int((time - start) * (_BAR - 1) // span)))

    cells = ["█" if place(oldest) <= each else "·" for each in range(_BAR)]
    if watermark is not None and watermark >= start:
        cells[place(watermark)] = "│"
    return "".join(cells)


def _waits_for(operator: Figures, given: Figures) -> str:
    """Return whose watermark the oldest row waits for, and how far it still has to move."""
    if given.get("leavesBy") is None or given.get("leavesAfter") is None:
        return ""
    found = next((column for column in _columns(operator) if column["name"] == given["leavesBy"]), {})
    holder = found.get("heldBy") or given["leavesBy"]
    if found.get("watermark") is None:
        return f"{holder}, which has no watermark yet"
    to_go = given["leavesAfter"] - found["watermark"]
    return f"{holder}, {format_duration(to_go)} to go" if to_go > 0 else str(holder)


def _hints(batch: Figures) -> Iterator[str]:
    for operator in batch["operators"]:
        yield from operator["hints"]
        for given in operator["inputs"]:
            yield from given["hints"]


def _text(words: str, style: str = "") -> Text:
    """Return text without any markup: names may look like rich's, or contain control characters."""
    from rich.text import Text

    return Text("".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in words), style)
