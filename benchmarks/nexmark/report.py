"""The tables of the Nexmark benchmark, as Markdown, made only from the records of the runs."""

import statistics
from collections.abc import Callable, Iterator

from harness.report import environment, origin_line, table
from harness.runs import Of, Record, Run, Runs, one_run, percentile, spread
from harness.sides import BY_NAME

from nexmark.measure import PARTS
from nexmark.queries import ALL, BY_VARIANT, Query

Figure = Callable[[Record], float | None]

TITLES = {
    "published": "As published: an auction is open for up to twice the time of 100 auctions",
    "long": "Auctions that live long",
}


def report(records: list[Record]) -> str:
    """Return the page about these runs."""
    records = one_run(records)
    if not records:
        return "# Nexmark\n\nNothing has run yet.\n"
    parts = [
        "# Nexmark",
        environment(records),
        "All sides of a query are of one command, machine, kernel and jar, and take turns in each round. Values are "
        "medians of the rounds with the least and the most; a ratio is of the same round.",
    ]
    for setting, title in TITLES.items():
        if found := [record for record in records if record["setting"] == setting]:
            parts += [f"## {title}", sizes(found), *summary(found)]
            parts += [part for query, own in by_query(found) for part in section(query, own)]
    return "\n\n".join(parts) + "\n"


def by_query(records: list[Record]) -> Iterator[tuple[Query, list[Record]]]:
    """Return the queries that ran, in order, each with its records."""
    for query in ALL:
        if own := [record for record in records if BY_VARIANT[record["variant"]][0] is query]:
            yield query, own


def sizes(records: list[Record]) -> str:
    """Return one line for each size of the events."""
    lines = []
    for part in PARTS:
        for size in {str(record["sizes"]): record["sizes"] for record in records if record["part"] == part}.values():
            lines.append(
                f"- {part}: {size['events']:,} events, {size['rate']:,} for each second of event time, "
                f"{size['in_flight']:,} auctions open, {size['file_events']:,} events in a file"
            )
    return "\n".join(lines)


def summary(records: list[Record]) -> list[str]:
    """Return a table with a line for each variant of streamjoin next to Spark's best, if their speed was measured."""
    timed = [record for record in records if record["part"] == "throughput"]
    if not timed:
        return []
    lines = [line for query, own in by_query(timed) for line in next_to_best(query, own)]
    header = ["", "streamjoin, k events/s", "Spark's best", "k events/s", "x", "goal", "met"]
    return ["Warm, thousand events a second; of Spark's runs, the fastest that lost no rows:", table(header, lines)]


def next_to_best(query: Query, records: list[Record]) -> Iterator[list[str]]:
    """Return a line for each variant of streamjoin."""
    runs = Runs(record | {"side": _side(record)} for record in records)
    own = {_side(record): record for record in records}
    name = records[0]["scenario"]

    def speed(run: Run) -> float | None:
        return events_per_second(run.record) if run.finished else None

    lossless = [side for side, record in own.items() if not _is_ours(record) and not record.get("lost")]
    best = runs.best(name, [side for side in lossless if runs.finished(name, side)], speed)
    for side in (side for side, record in own.items() if _is_ours(record)):
        ratios = runs.ratios(Of(name, side, speed), Of(name, best, speed)) if best else []
        met = "-"
        if query.goal and ratios:
            met = "yes" if statistics.median(ratios) >= query.goal else "**no**"
        yield [
            _name(query, own[side]),
            _shown(runs.values(name, side, speed), ",.1f"),
            f"{own[best]['side']}, {BY_VARIANT[own[best]['variant']][1].how}" if best else "-",
            _shown(runs.values(name, best, speed), ",.1f") if best else "-",
            _shown(ratios, ".2f"),
            f">= {query.goal:g}" if query.goal else "-",
            met,
        ]


def section(query: Query, records: list[Record]) -> list[str]:
    """Return the heading of a query and its table, with a line for each side of each variant."""
    named: list[tuple[str, str, Figure, str]] = [
        ("k events/s, warm", "throughput", events_per_second, ",.1f"),
        ("k rows read/s, warm", "throughput", rows_per_second, ",.1f"),
        ("most rows in state", "throughput", state_rows, ",.0f"),
        ("rows in arrangements", "throughput", arranged_rows, ",.0f"),
        ("rows lost", "throughput", lost_rows, ",.0f"),
        ("heap, MB", "heap", heap, ",.0f"),
        ("p50, ms", "live", batch_ms(0.5), ",.0f"),
        ("p99, ms", "live", batch_ms(0.99), ",.0f"),
        ("last result, s", "live", behind, ",.1f"),
    ]
    lines = []
    for variant, side in dict.fromkeys((record["variant"], record["side"]) for record in records):
        own = [record for record in records if (record["variant"], record["side"]) == (variant, side)]
        cells = [_cell([r for r in own if r["part"] == part], figure, form) for _, part, figure, form in named]
        lines.append([_name(query, own[0]), side, *cells])
    return [f"### {query.title}", origin_line(records), table(["", "side", *(each[0] for each in named)], lines)]


def _side(record: Record) -> str:
    return f"{record['variant']}, {record['side']}"


def _is_ours(record: Record) -> bool:
    return BY_NAME[record["side"]].engine == "ours"


def _name(query: Query, record: Record) -> str:
    variant = BY_VARIANT[record["variant"]][1]
    keeps = f"; keeps {variant.keeps}" if variant.keeps and not _is_ours(record) else ""
    return f"{query.name}, {variant.how}{keeps}"


def _shown(values: list[float], form: str) -> str:
    return spread(values, form) if values else "-"


def _cell(records: list[Record], figure: Figure, form: str) -> str:
    if any(record.get("unfinished") for record in records):
        return f"> {records[0]['wall']:.0f} s"
    return _shown([value for record in records if (value := figure(record)) is not None], form)


def events_per_second(record: Record) -> float | None:
    """Return the events of the measured steps, of all kinds, over their time, thousands."""
    return float(sum(step["events"] for step in record["warm"]) / sum(step["ms"] for step in record["warm"]))


def rows_per_second(record: Record) -> float | None:
    """Return the rows that the query itself has read in the measured steps over their time, thousands."""
    if record["inSteps"]:
        return None
    return float(sum(step["rows"] for step in record["warm"]) / sum(step["ms"] for step in record["warm"]))


def state_rows(record: Record) -> float | None:
    """Return the most rows that the state of the query had after a batch."""
    return float(max(record["batches"]["stateRows"]))


def arranged_rows(record: Record) -> float | None:
    """Return the rows of all arrangements that the query reads, at the end."""
    return float(record["arrangedRows"]) or None


def lost_rows(record: Record) -> float | None:
    """Return how many of DuckDB's rows are missing."""
    return float(record["lost"]) or None


def heap(record: Record) -> float | None:
    """Return the most that a collection left in use, MB."""
    return record["peakHeapBytes"] / 1e6 if record["peakHeapBytes"] else None


def batch_ms(share: float) -> Figure:
    """Return a percentile of the times of batches with rows, after the first quarter of the batches."""

    def value(record: Record) -> float | None:
        batches = record["batches"]
        times = [ms for ms, rows in zip(batches["ms"], batches["inputRows"], strict=True) if rows]
        # The last one has the closing rows.
        later = times[len(times) // 4 : -1]
        return percentile(later, share) if later else None

    return value


def behind(record: Record) -> float | None:
    """Return how long the query took for what was left when the last event had arrived, seconds."""
    return float(record["behind"])
