"""The tables of the Nexmark benchmark, as Markdown, made only from the records of the runs."""

import math
import statistics
from collections.abc import Callable

from harness.report import environment, table
from harness.runs import Record, percentile

from nexmark.queries import ALL, Query, Variant

Figure = Callable[[Record, float], float | None]

TITLES = {
    "published": "As published: an auction is open for up to twice the time of 100 auctions",
    "long": "Auctions that live long",
}


def report(records: list[Record], warm_up: float) -> str:
    """Return the page.

    Args:
        records: of all runs.
        warm_up: the share of the events before those that are measured.
    """
    if not records:
        return "# Nexmark\n\nNothing has run yet.\n"
    parts = ["# Nexmark", environment(records)]
    for setting, title in TITLES.items():
        if found := [record for record in records if record["setting"] == setting]:
            parts += [f"## {title}", sizes(found), *tables(found, warm_up)]
    return "\n\n".join(parts) + "\n"


def sizes(records: list[Record]) -> str:
    """Return one line for each size of the events."""
    lines = []
    for part in dict.fromkeys(record["part"] for record in records):
        for size in {str(record["sizes"]): record["sizes"] for record in records if record["part"] == part}.values():
            lines.append(
                f"- {part}: {size['events']:,} events, {size['rate']:,} for each second of event time, "
                f"{size['in_flight']:,} auctions open, {size['file_events']:,} events in a file"
            )
    return "\n".join(lines)


def tables(records: list[Record], warm_up: float) -> list[str]:
    """Return the tables of a setting, each with a line for each variant and a column for each side."""
    named: list[tuple[str, str, Figure, str]] = [
        ("Warm: thousand events a second, median (least to most)", "throughput", events_per_second, ",.1f"),
        ("Warm: thousand rows read a second, median", "throughput", rows_per_second, ",.1f"),
        ("Most rows in the state (arranged rows in parentheses)", "throughput", state_rows, ",.0f"),
        ("Most heap after a collection, MB", "heap", heap, ",.0f"),
        ("Batches at a fixed rate: p50, ms", "live", batch_ms(0.5), ",.0f"),
        ("Batches at a fixed rate: p99, ms", "live", batch_ms(0.99), ",.0f"),
        ("At a fixed rate: seconds from the last event to its result", "live", behind, ",.1f"),
    ]
    parts = []
    for title, part, figure, form in named:
        found = [record for record in records if record["part"] == part]
        if found:
            parts += [f"### {title}", _table(found, figure, form, warm_up)]
    return parts


def _table(records: list[Record], figure: Figure, form: str, warm_up: float) -> str:
    sides = list(dict.fromkeys(record["side"] for record in records))
    lines = []
    for query in ALL:
        for variant in query.variants:
            own = [record for record in records if record["variant"] == variant.file]
            if own:
                cells = [_cell([r for r in own if r["side"] == side], figure, form, warm_up) for side in sides]
                lines.append([_name(query, variant), *cells])
    return table(["", *sides], lines)


def _name(query: Query, variant: Variant) -> str:
    keeps = f"; Spark keeps {variant.keeps}" if variant.keeps else ""
    return f"{query.name}, {variant.how}{keeps}"


def _cell(records: list[Record], figure: Figure, form: str, warm_up: float) -> str:
    if not records:
        return "-"
    if any(record.get("unfinished") for record in records):
        return f"not finished after {records[0]['wall']:.0f} s"
    values = [value for record in records if (value := figure(record, warm_up)) is not None]
    if not values:
        return "-"
    text = f"{statistics.median(values):{form}}"
    if len(values) > 1 and figure is events_per_second:
        text += f" ({min(values):{form}} to {max(values):{form}})"
    if lost := max(record["lost"] for record in records):
        text += f", {lost:,} rows lost"
    arranged = records[0]["arrangedRows"]
    return text + (f" ({arranged:,})" if figure is state_rows and arranged else "")


def _warm(record: Record, warm_up: float) -> range:
    """Return the positions of the files that are measured."""
    sizes = record["sizes"]
    files = math.ceil(sizes["events"] / sizes["file_events"])
    return range(math.floor(files * warm_up), files)


def events_per_second(record: Record, warm_up: float) -> float | None:
    """Return the events of the measured files, of all kinds, over the time of their steps, thousands."""
    sizes, warm = record["sizes"], _warm(record, warm_up)
    events = min(warm.stop * sizes["file_events"], sizes["events"]) - warm.start * sizes["file_events"]
    return float(events / sum(record["stepMs"][warm.start : warm.stop]))


def rows_per_second(record: Record, warm_up: float) -> float | None:
    """Return the rows that the query itself has read in the measured steps over their time, thousands."""
    rows = [each for each in record["batches"]["inputRows"] if each]
    warm = _warm(record, warm_up)
    if record["inSteps"]:
        return None
    return float(sum(rows[warm.start : warm.stop]) / sum(record["stepMs"][warm.start : warm.stop]))


def state_rows(record: Record, warm_up: float) -> float | None:
    """Return the most rows that the state of the query had after a batch."""
    return float(max(record["batches"]["stateRows"]))


def heap(record: Record, warm_up: float) -> float | None:
    """Return the most that a collection left in use, MB."""
    return record["peakHeapBytes"] / 1e6 if record["peakHeapBytes"] else None


def batch_ms(share: float) -> Figure:
    """Return a percentile of the times of batches with rows, after the first quarter of the batches."""

    def value(record: Record, warm_up: float) -> float | None:
        batches = record["batches"]
        times = [ms for ms, rows in zip(batches["ms"], batches["inputRows"], strict=True) if rows]
        # The last one has the closing rows.
        later = times[len(times) // 4 : -1]
        return percentile(later, share) if later else None

    return value


def behind(record: Record, warm_up: float) -> float | None:
    """Return how long the query took for what was left when the last event had arrived, seconds."""
    return float(record["behind"])
