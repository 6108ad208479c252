"""The demo from Kafka to Kafka: two topics joined into a third, stopped halfway and restarted.

A broker starts, the first half of both streams is produced, ``orders_deliveries.py`` joins what is there and stops;
then the second half is produced and the same command runs again. It continues from its checkpoint: rows of the
second half match those of the first in the join's state. The third topic is compared with DuckDB's answer.

Spark's Kafka sink is at least once: a batch that was cut off is written again by the next run, and its records are
then in the topic twice. So distinct rows are compared. The join itself emits every row once.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from check_orders import check
from generate_orders import SPAN, STEP, STEPS_PER_BATCH, Step, Streams, json_lines, streams, write_files
from kafka_broker import KafkaBroker, connector_jars
from spark_submit import environment, spark_submit

TOOLS = Path(__file__).resolve().parents[2] / ".tools"
JOB = Path(__file__).with_name("orders_deliveries.py")


def main() -> int:
    """Run the demo; return 0 if the third topic holds the right rows."""
    parser = argparse.ArgumentParser(description="Orders joined with their deliveries, from Kafka to Kafka.")
    parser.add_argument("--orders", type=int, default=200_000)
    parser.add_argument("--work", type=Path, default=Path("build/demo-kafka"))
    args = parser.parse_args()
    work = args.work.resolve()
    print(f"Generating {args.orders:,} orders and their deliveries", flush=True)
    generated = streams(args.orders)
    half = len(generated.steps) // 2

    # The broker's folder is the work folder: it is removed first, and a checkpoint of other topics
    # with it.
    with KafkaBroker(TOOLS, work) as broker:
        write_files(generated, work, pause=0)
        for topic in ("orders", "deliveries", "joined"):
            broker.create_topic(topic)
        print(f"A broker runs on {broker.bootstrap}. First half, first run:", flush=True)
        produce(broker, generated.steps[:half])
        run_job(broker, work, batch_rows(generated))
        print(f"\nThe job has stopped; the topic 'joined' has {broker.count('joined'):,} records.")
        print("Second half, second run, with the same checkpoint:", flush=True)
        produce(broker, generated.steps[half:])
        run_job(broker, work, batch_rows(generated))
        rows = broker.consume("joined")

    result = work / "joined.json"
    result.write_text("".join(f"{row}\n" for row in rows))
    columns = {
        "order_id": "BIGINT",
        "order_time": "TIMESTAMPTZ",
        "customer": "VARCHAR",
        "cents": "BIGINT",
        "delivery_id": "BIGINT",
        "delivery_time": "TIMESTAMPTZ",
        "courier": "VARCHAR",
    }
    checked = check(
        work,
        f"read_json('{result}', format = 'newline_delimited', columns = {json.dumps(columns)})",
        distinct=True,
    )
    checked.show()
    distinct = checked.totals[0][1]
    print(f"\n{len(rows):,} records in the topic, {len(rows) - distinct:,} of them written twice")
    print("The same rows" if checked.same else "DIFFERENT ROWS")
    return 0 if checked.same else 1


def produce(broker: KafkaBroker, steps: list[Step]) -> None:
    """Append the rows of the steps to both topics."""
    broker.produce("orders", json_lines([row for step in steps for row in step.orders]))
    broker.produce("deliveries", json_lines([row for step in steps for row in step.deliveries]))


def batch_rows(generated: Streams) -> int:
    """Return how many rows of a topic a batch may take, so that rows that are meant to be late are late."""
    orders = sum(len(step.orders) for step in generated.steps)
    return max(1, orders * STEPS_PER_BATCH // (SPAN // STEP))


def run_job(broker: KafkaBroker, work: Path, rows: int) -> None:
    """Run the job on what the topics hold, until it stops."""
    arguments = ["--source=kafka", f"--bootstrap={broker.bootstrap}", f"--work={work}", f"--batch-rows={rows}"]
    jars = connector_jars(TOOLS)
    subprocess.run(spark_submit(JOB, *arguments, jars=jars), env=environment(), check=True)


if __name__ == "__main__":
    sys.exit(main())
