"""Draws the first picture of README.md: the same rows, joined by Spark and by streamjoin.

``python docs/rows_and_time.py`` runs the query once with each and writes ``docs/pictures/rows-and-time.svg``. A test
compares the picture with the output of both.
"""

import json
import tempfile
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

PICTURE = Path(__file__).resolve().parent / "pictures" / "rows-and-time.svg"

# The time at which a row arrives, which is also its event time; its stream; its order.
ROWS = [
    ("09:00", "orders", "a"),
    ("09:10", "orders", "b"),
    ("09:20", "orders", "c"),
    ("09:30", "deliveries", "a"),
    ("09:50", "deliveries", "c"),
    ("10:30", "deliveries", "x"),
    ("11:30", "deliveries", "y"),
    ("12:30", "orders", "d"),
    ("13:10", "deliveries", "d"),
]
QUERY = "o.order = d.order AND delivery_time BETWEEN order_time AND order_time + INTERVAL 1 HOUR"


class Step(NamedTuple):
    """The result of a query after a row has arrived: the emitted pairs, and the rows in state."""

    time: str
    emitted: list[tuple[str, str | None]]
    kept: int


def run(spark: SparkSession, engine: str, folder: Path) -> list[Step]:
    """Run the query of the picture in its own session, with ``spark`` or with ``streamjoin``."""
    session = spark.newSession()
    session.conf.set("spark.streamjoin.enabled", str(engine == "streamjoin").lower())
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.shuffle.partitions", "1")
    orders = stream(session, folder, "orders", "order_time").alias("o")
    deliveries = stream(session, folder, "deliveries", "delivery_time").alias("d")
    joined = orders.join(deliveries, F.expr(QUERY), "left_outer").select("o.order", "delivery_time")
    query = joined.writeStream.format("memory").queryName(f"picture_{engine}").start()
    steps = list[Step]()
    seen = set[tuple[str, str | None]]()
    for number, (time, name, order) in enumerate(ROWS):
        column = "order_time" if name == "orders" else "delivery_time"
        text = json.dumps({"order": order, column: f"2026-01-01T{time}:00Z"})
        hidden = folder / name / f"_{number}.json"
        hidden.write_text(text)
        hidden.rename(folder / name / f"{number}.json")
        query.processAllAvailable()
        shown = session.table(f"picture_{engine}").selectExpr("`order`", "date_format(delivery_time, 'HH:mm')")
        rows = {(row[0], row[1]) for row in shown.collect()}
        progress = query.lastProgress
        assert progress is not None
        join = progress["stateOperators"][0]
        steps.append(Step(time, sorted(rows - seen), join["numRowsTotal"]))
        seen |= rows
    operator = join["operatorName"]
    assert operator == {"spark": "symmetricHashJoin", "streamjoin": "streamIntervalJoin"}[engine], operator
    query.stop()
    return steps


def stream(session: SparkSession, folder: Path, name: str, column: str) -> DataFrame:
    """Return a folder of JSON files as a stream."""
    (folder / name).mkdir(parents=True)
    rows = session.readStream.schema(f"order STRING, {column} TIMESTAMP").json(str(folder / name))
    return rows.withWatermark(column, "10 minutes")


INK, GREY, LINE = "#1f2328", "#57606a", "#d0d7de"
ORDER, DELIVERY, UNMATCHED = "#0969da", "#1a7f37", "#bc4c00"
LEFT, HOUR = 150, 160
LANES = {"orders": 66, "deliveries": 108, "spark": 194, "streamjoin": 274}


def x_of(time: str) -> int:
    """Return the position of a time on the axis."""
    hour, minute = map(int, time.split(":"))
    return LEFT + round((hour - 9 + minute / 60) * HOUR)


def drawn(steps: dict[str, list[Step]]) -> str:
    """Return the picture as SVG."""
    waits = {name: time_of(each, "b") for name, each in steps.items()}
    kept = {name: next(step.kept for step in each if step.time == "11:30") for name, each in steps.items()}
    parts = [
        '<title id="title">When Spark and streamjoin emit the rows of one query</title>',
        '<desc id="desc">Orders arrive at 9:00, 9:10, 9:20 and 12:30, deliveries at 9:30, 9:50, 10:30, 11:30 and '
        f"13:10. Order b has no delivery within an hour. Spark emits it at {waits['spark']}, streamjoin at "
        f"{waits['streamjoin']}. At 12:00 Spark keeps {kept['spark']} rows, streamjoin {kept['streamjoin']}.</desc>",
        f'<rect x="1" y="1" width="858" height="334" rx="8" fill="#ffffff" stroke="{LINE}"/>',
        text(
            20, 28, "Each order with its delivery within an hour, or with NULL; between 9:20 and 12:30 nobody orders"
        ).replace("<text", '<text font-weight="bold"'),
    ]
    for hour in range(9, 14):
        x = x_of(f"{hour}:00")
        parts.append(f'<line x1="{x}" y1="44" x2="{x}" y2="306" stroke="{LINE}"/>')
        parts.append(text(x, 324, f"{hour}:00", "middle", GREY))
    parts.append(f'<rect x="{x_of("9:30")}" y="48" width="{x_of("12:20") - x_of("9:30")}" height="34" fill="#f2f2f2"/>')
    parts.append(text(x_of("10:55"), 70, "no orders", "middle", GREY))
    parts += [text(20, y + 5, label) for label, y in (("orders", LANES["orders"]), ("deliveries", LANES["deliveries"]))]
    for time, name, order in ROWS:
        parts += row(x_of(time), LANES[name], name, order)
    parts.append(f'<line x1="20" y1="140" x2="840" y2="140" stroke="{LINE}" stroke-width="2"/>')
    for name, label in (("spark", "Spark emits"), ("streamjoin", "streamjoin emits")):
        y = LANES[name]
        parts += [text(20, y - 6, label), text(20, y + 29, "rows it keeps", color=GREY)]
        at = x_of(waits[name])
        parts.append(
            f'<path d="M {x_of("09:10")} {y - 26} H {at}" stroke="{UNMATCHED}" stroke-width="2" '
            f'stroke-dasharray="5 3"/><path d="M {at} {y - 26} v 12" stroke="{UNMATCHED}" stroke-width="2"/>'
        )
        parts.append(text(x_of("09:10") + 6, y - 31, f"order b waits until {waits[name]}", color=UNMATCHED))
        for step in steps[name]:
            for order, delivered in step.emitted:
                parts += pair(x_of(step.time), y, order, delivered)
            parts.append(text(x_of(step.time), y + 29, str(step.kept), "middle", GREY))
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" width="860" height="336" viewBox="0 0 860 336" role="img" '
        f'aria-labelledby="title desc" font-family="sans-serif" font-size="13" fill="{INK}">\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def time_of(steps: list[Step], order: str) -> str:
    """Return when an order was emitted."""
    return next(step.time for step in steps for name, _ in step.emitted if name == order)


def text(x: float, y: float, content: str, anchor: str = "start", color: str = INK) -> str:
    """Return a text."""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{color}">{content}</text>'


def row(x: int, y: int, name: str, order: str) -> list[str]:
    """Return a circle for an order or a square for a delivery."""
    shape = (
        f'<circle cx="{x}" cy="{y}" r="10" fill="{ORDER}"/>'
        if name == "orders"
        else f'<rect x="{x - 10}" y="{y - 10}" width="20" height="20" rx="3" fill="{DELIVERY}"/>'
    )
    return [shape, text(x, y + 4, order, "middle", "#ffffff")]


def pair(x: int, y: int, order: str, delivered: str | None) -> list[str]:
    """Return an emitted row: an order and its delivery, or an order and NULL."""
    left = row(x - 10, y, "orders", order)
    if delivered:
        return left + row(x + 11, y, "deliveries", order)
    return [*left, text(x + 3, y + 4, "NULL", color=UNMATCHED).replace("<text", '<text font-weight="bold"')]


def main() -> None:
    """Run both, print what they emit and when, and write the picture."""
    import streamjoin as sj

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = sj.configure(builder.config("spark.log.level", "ERROR")).getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        steps = {engine: run(spark, engine, Path(folder, engine)) for engine in ("spark", "streamjoin")}
    spark.stop()
    for engine, each in steps.items():
        print(engine, *each, sep="\n  ")
    PICTURE.write_text(drawn(steps))


if __name__ == "__main__":
    main()
