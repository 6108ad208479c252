"""The pictures of docs/monitoring.md, from figures of real runs: `make pictures`.

Three queries run over files that are made here, with their histories in build/pictures: a chain of three streams, the
last of which stalls; payments within 30 days; and a chain of twelve. A browser without a window then draws their
reports and takes pictures of parts of them. With `--look FOLDER` it draws the whole reports, as wide as a small and as
a large window, light and dark, for inspection. `--drawn` leaves out the runs and uses the histories of the last ones.
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyspark.sql.functions as F  # noqa: N812
from pyspark.sql import Column, DataFrame, SparkSession

import streamjoin as sj
from streamjoin.monitoring._report_page import render_page
from streamjoin.monitoring._sources import read_location

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "pictures"
DOCS = ROOT / "docs" / "pictures"
START = datetime(2026, 1, 1, 9, tzinfo=UTC).timestamp()
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "chromium")

Batches = list[list[tuple[int, float]]]
"""Keys and times of the rows of a stream, a file a batch; times in seconds."""

SHOWN = {
    "monitoring-holds": ("shop", 1100, "light", '[data-question="holds"]'),
    "monitoring-waits": ("shop", 1100, "light", '[data-question="waits"]'),
    "monitoring-time": ("shop", 1100, "light", '[data-question="time"]'),
    "monitoring-lateness": ("shop", 1400, "light", '[data-question="lateness"]'),
    "monitoring-distances": ("month", 1100, "light", '[data-question="distances"]'),
    "monitoring-twelve": ("twelve", 1100, "light", '[data-question="holds"]'),
}
"""A picture: of which query, how wide, in which colors, and which part of the page."""


def main() -> None:
    """Run the queries and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--look", type=Path, help="a folder for the whole reports in all sizes")
    parser.add_argument("--drawn", action="store_true", help="draw the histories of the last run")
    arguments = parser.parse_args()
    if not arguments.drawn:
        run()
    if arguments.look:
        arguments.look.mkdir(parents=True, exist_ok=True)
        for name in QUERIES:
            for width in (800, 1400, 2000):
                for theme in ("light", "dark"):
                    take(name, width, theme, None, arguments.look / f"{name}-{width}-{theme}.png")
        return
    for picture, (name, width, theme, part) in SHOWN.items():
        take(name, width, theme, part, DOCS / f"{picture}.png")
    take("shop", 1100, "light", None, DOCS / "monitoring-report.png", most=1180)


def run() -> None:
    """Run each query to the end of its files."""
    shutil.rmtree(WORK, ignore_errors=True)
    settings: dict[str, Any] = {"spark.sql.shuffle.partitions": "4", "spark.ui.port": "0"}
    builder = SparkSession.builder.master("local[2]").config(map=settings)
    spark = sj.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for name, make in QUERIES.items():
        spark.conf.set("spark.streamjoin.history", str(WORK / name / "history"))
        writer = make(spark).writeStream.format("noop").queryName(name)
        query = writer.start(checkpointLocation=str(WORK / name / "checkpoint"))
        query.processAllAvailable()
        query.stop()
    tab = f"http://localhost:{urlsplit(spark.sparkContext.uiWebUrl).port}/streamjoin/?query=shop"
    file = f"--screenshot={DOCS / 'monitoring-tab.png'}"
    browse(tab, file, "--window-size=1400,1120", "--blink-settings=preferredColorScheme=0")
    spark.stop()


def stream(spark: SparkSession, query: str, name: str, batches: Batches, delay: str) -> DataFrame:
    """Return a stream that reads one file per batch."""
    folder = WORK / query / name
    folder.mkdir(parents=True)
    for at, rows in enumerate(batches):
        file = folder / f"{at:05}.json"
        times = (
            (key, datetime.fromtimestamp(START + time, UTC).isoformat(timespec="milliseconds")) for key, time in rows
        )
        file.write_text("".join(json.dumps({"id": key, "time": time}) + "\n" for key, time in times))
        os.utime(file, (START + at, START + at))
    read = spark.readStream.schema("id BIGINT, time TIMESTAMP").option("maxFilesPerTrigger", 1)
    return read.json(str(folder)).withWatermark("time", delay).alias(name)


def empty(batches: int) -> Batches:
    """Return so many batches without rows."""
    return [[] for _ in range(batches)]


def within(first: str, second: str, bound: str) -> Column:
    """Return the condition of rows of one key with the second one at most so much later."""
    return F.expr(
        f"{first}.id = {second}.id AND {second}.time BETWEEN {first}.time AND {first}.time + INTERVAL {bound}"
    )


def shop(spark: SparkSession) -> DataFrame:
    """Orders, of which some are late, their deliveries, and returns, which stall."""
    chance, count, step = random.Random(1), 72, 120.0
    orders, deliveries, returns = empty(count), empty(count), empty(count)

    def add(to: Batches, key: int, time: float, arrives: float) -> None:
        if arrives < count * step:
            to[int(arrives // step)].append((key, time))

    for key in range(count * 150):
        ordered = key / 150 * step
        behind = chance.expovariate(1 / 110) if chance.random() < 0.998 else chance.random() * 1800
        add(orders, key, ordered - behind, ordered)
        if chance.random() < 0.8:
            delivered = ordered + chance.expovariate(1 / 700)
            add(deliveries, key, delivered - chance.expovariate(1 / 20), delivered)
            if chance.random() < 0.2:
                returned = delivered + chance.random() * 1700
                add(returns, key, returned, returned)
    for at in range(48, count - 2):
        returns[at] = []
    streams = [("orders", orders), ("deliveries", deliveries), ("returns", returns[: count - 2])]
    of = [stream(spark, "shop", name, batches, "10 minutes") for name, batches in streams]
    joined = of[0].join(of[1], within("orders", "deliveries", "1 HOUR"), "left")
    return joined.join(of[2], within("deliveries", "returns", "30 MINUTES"), "left")


def month(spark: SparkSession) -> DataFrame:
    """Payments within 30 days, which arrive within minutes."""
    chance, count, step = random.Random(2), 40, 60.0
    orders, payments = empty(count), empty(count)
    for key in range(count * 100):
        ordered = key / 100 * step
        paid = ordered + chance.expovariate(1 / step)
        orders[int(ordered // step)].append((key, ordered))
        if paid < count * step:
            payments[int(paid // step)].append((key, paid))
    first = stream(spark, "month", "orders", orders, "10 seconds")
    return first.join(
        stream(spark, "month", "payments", payments, "10 seconds"), within("orders", "payments", "30 DAYS"), "left"
    )


def twelve(spark: SparkSession) -> DataFrame:
    """Twelve streams, with bounds from a second to a month; the seventh stalls."""
    names = "orders payments invoices shipments deliveries returns refunds reviews complaints replies surveys renewals"
    bounds = ["1 SECOND", "5 SECONDS", "30 SECONDS", "2 MINUTES", "10 MINUTES", "1 HOUR", "6 HOURS", "1 DAY"]
    bounds += ["3 DAYS", "7 DAYS", "30 DAYS"]
    streams = []
    for number, name in enumerate(names.split()):
        rows: Batches = [[(at * 50 + key, at * 60 + key + number / 10) for key in range(50)] for at in range(20)]
        if name == "refunds":
            rows[10:] = [[] for _ in range(10)]
        streams.append((name, stream(spark, "twelve", name, rows, "5 seconds")))
    joined = streams[0][1]
    for (before, _), (name, right), bound in zip(streams, streams[1:], bounds, strict=False):
        joined = joined.join(right, within(before, name, bound), "left")
    return joined


QUERIES: dict[str, Callable[[SparkSession], DataFrame]] = {"shop": shop, "month": month, "twelve": twelve}


def take(name: str, width: int, theme: str, part: str | None, file: Path, most: int = 16_000) -> None:
    """Draw a query's report, or a part of it, and write the picture; at most ``most`` pixels high."""
    html = render_page(read_location(str(WORK / name / "history"), None, "make pictures"), None).replace(
        "<html", f'<html data-theme="{theme}"', 1
    )
    if part is not None:
        html = html.replace("</body>", f"<script>{ONLY % json.dumps(part)}</script></body>")
    report = WORK / "report.html"
    report.write_text(html.replace("</body>", f"<script>{TALL}</script></body>"), encoding="utf-8")
    document = browse(report.as_uri(), "--dump-dom", f"--window-size={width},600")
    found = re.search(r'data-height="(\d+)"', document)
    assert found is not None, "the report has no height"
    browse(report.as_uri(), f"--screenshot={file}", f"--window-size={width},{min(int(found[1]), most)}")


ONLY = """
const part = document.querySelector(".plan").querySelector(%s);
for (let one = part; one !== document.body; one = one.parentElement)
  for (const other of one.parentElement.children) if (other !== one) other.style.display = "none";
document.body.style.margin = "0 auto";
"""
TALL = "document.body.dataset.height = Math.ceil(document.documentElement.getBoundingClientRect().height);"


def browse(address: str, *options: str) -> str:
    """Run the browser for a page. The name of this machine may lead it to a proxy."""
    fixed = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--no-proxy-server",
        "--virtual-time-budget=5000",
    ]
    command = [BROWSER, *fixed, f"--user-data-dir={WORK / 'browser'}", *options, address]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout


if __name__ == "__main__":
    main()
