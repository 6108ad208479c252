"""Three streams, one of which stalls: the rows that the first join keeps, Spark's and streamjoin's, as a picture.

``python benchmarks/stalled.py`` writes ``docs/stalled-stream.svg``. Orders and deliveries continue, with ten minutes of
event time per batch; returns arrive in the first batches only. Spark has one watermark for the whole query, the
slowest. It rejects a second join over two event-time columns, so its query converts the time of the order to a number
between the joins.
"""

import json
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from harness.picture import LEFT, PLOT, WIDTH, line, rectangle, svg, text
from harness.sides import BY_NAME, session
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

BATCHES = 72
STALLED_AFTER = 12
ROWS = 100
START = datetime(2026, 1, 1, tzinfo=UTC)
STEP = timedelta(minutes=10)
SIDES = {"spark-default": "#e07b39", "ours-default": "#2a7fb8"}
PICTURE = Path(__file__).resolve().parent.parent / "docs" / "stalled-stream.svg"


def main() -> None:
    """Run both sides, one after the other, and write the picture."""
    kept = {}
    for name in SIDES:
        with tempfile.TemporaryDirectory() as folder:
            kept[name] = run(name, Path(folder))
    PICTURE.write_text(svg(*drawn(kept)))
    for name, rows in kept.items():
        print(f"{name}: {max(rows):,} rows at the most, {rows[-1]:,} after {len(rows)} batches")


def run(name: str, folder: Path) -> list[int]:
    """Return the rows that the first join keeps after each batch."""
    side = BY_NAME[name]
    spark = session(side, {})
    orders, deliveries, returns = (stream(spark, folder, each) for each in ("order", "delivery", "return"))
    first = orders.join(
        deliveries,
        F.expr("order_id = delivery_id AND delivery_time BETWEEN order_time AND order_time + INTERVAL 1 HOUR"),
    )
    if side.engine == "spark":
        first = first.withColumn("order_time", F.unix_millis("order_time"))
    within = F.expr(
        "order_id = return_id AND return_time BETWEEN delivery_time AND delivery_time + INTERVAL 30 MINUTES"
    )
    query = (
        first.join(returns, within)
        .writeStream.format("noop")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )
    kept = []
    for batch in range(BATCHES):
        for each in ("order", "delivery", "return"):
            if each != "return" or batch < STALLED_AFTER:
                write(folder / each, each, batch)
        query.processAllAvailable()
        progress = [json.loads(p.json) for p in query.recentProgress if p.numInputRows > 0][-1]
        # Spark lists the operators from the last join to the first.
        kept.append(progress["stateOperators"][-1]["numRowsTotal"])
    query.stop()
    spark.stop()
    return kept


def stream(spark: SparkSession, folder: Path, name: str) -> DataFrame:
    """Return one of the streams, a folder of files."""
    (folder / name).mkdir()
    rows = spark.readStream.schema(f"{name}_id INT, {name}_time TIMESTAMP").json(str(folder / name))
    return rows.withWatermark(f"{name}_time", "1 minute")


def write(folder: Path, name: str, batch: int) -> None:
    """Write the rows of ten minutes; those of one id are a minute apart from stream to stream."""
    delay = timedelta(minutes=("order", "delivery", "return").index(name))
    rows = [
        {f"{name}_id": batch * ROWS + n, f"{name}_time": (START + STEP * (batch + n / ROWS) + delay).isoformat()}
        for n in range(ROWS)
    ]
    unfinished = folder / f"_{batch}"
    unfinished.write_text("".join(json.dumps(row) + "\n" for row in rows))
    unfinished.rename(folder / f"{batch}.json")


def drawn(kept: dict[str, list[int]]) -> tuple[list[str], float]:
    """Return the elements of the picture, and its height."""
    highest = max(max(rows) for rows in kept.values())

    def x(batch: float) -> float:
        return LEFT / 2 + batch / BATCHES * (WIDTH - LEFT / 2 - 190)

    def y(rows: float) -> float:
        return 50 + PLOT * (1 - rows / highest)

    elements = [
        text(10, 20, "Rows that the join of orders and deliveries keeps, while returns stall", "start", bold=True),
        rectangle(x(STALLED_AFTER), y(highest), x(BATCHES) - x(STALLED_AFTER), PLOT, "#f2f2f2"),
        text(x(STALLED_AFTER) + 6, y(highest) + 14, "no returns come", "start"),
        line([(x(0), y(0)), (x(BATCHES), y(0))], "#cccccc"),
        text(x(0) - 8, y(highest) + 4, f"{highest:,}", "end"),
        text(x(0) - 8, y(0) + 4, "0", "end"),
        *(text(x(batch), y(0) + 16, f"{batch // 6} h", "middle") for batch in range(0, BATCHES + 1, 12)),
    ]
    for name, rows in kept.items():
        elements.append(line([(x(at + 1), y(value)) for at, value in enumerate(rows)], SIDES[name]))
        words = "Spark's own" if name.startswith("spark") else "streamjoin"
        elements.append(text(x(BATCHES) + 8, y(rows[-1]) + 4, f"{words}: {rows[-1]:,}", "start"))
    return elements, PLOT + 90


if __name__ == "__main__":
    main()
