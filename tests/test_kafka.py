"""From Kafka to Kafka through a real broker, with the job stopped and started again between the rows."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples"))

from kafka_broker import KafkaBroker, connector_jars  # noqa: E402
from spark_submit import environment, spark_submit  # noqa: E402

TOOLS = ROOT / ".tools"


def test_kafka_to_kafka_with_a_restart_between(tmp_path: Path) -> None:
    with KafkaBroker(TOOLS, tmp_path / "broker") as broker:
        for topic in ("orders", "deliveries", "joined"):
            broker.create_topic(topic)

        broker.produce("orders", [_order(1, "10:00"), _order(2, "10:05"), _order(3, "10:10")])
        broker.produce("deliveries", [_delivery(11, 1, "10:20")])
        _run_job(broker, tmp_path)
        assert _joined(broker) == {(1, 11)}, "orders 2 and 3 wait in state"

        # 3 comes after more than an hour; the last of each stream moves its watermark past the others.
        broker.produce("deliveries", [_delivery(12, 2, "10:40"), _delivery(13, 3, "11:30"), _delivery(-1, -2, "20:00")])
        broker.produce("orders", [_order(-1, "20:00")])
        _run_job(broker, tmp_path)
        assert _joined(broker) == {(1, 11), (2, 12), (3, None)}

        # Both rows of 4 are late, and nothing shows that they were there. 5 is on time.
        broker.produce("orders", [_order(4, "10:30"), _order(5, "20:05")])
        broker.produce("deliveries", [_delivery(14, 4, "10:35"), _delivery(15, 5, "20:10")])
        _run_job(broker, tmp_path)
        assert _joined(broker) == {(1, 11), (2, 12), (3, None), (5, 15)}


def _order(order_id: int, at: str) -> str:
    return json.dumps({"order_id": order_id, "order_time": f"2026-01-01T{at}:00Z", "customer": "c", "cents": 1})


def _delivery(delivery_id: int, order_id: int, at: str) -> str:
    time = f"2026-01-01T{at}:00Z"
    return json.dumps({"delivery_id": delivery_id, "order_id": order_id, "delivery_time": time, "courier": "van"})


def _run_job(broker: KafkaBroker, work: Path) -> None:
    command = spark_submit(
        ROOT / "examples" / "orders_deliveries.py",
        "--source=kafka",
        f"--bootstrap={broker.bootstrap}",
        f"--work={work}",
        jars=connector_jars(TOOLS),
    )
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def _joined(broker: KafkaBroker) -> set[tuple[int, int | None]]:
    """Return the pairs in the third topic; Spark's Kafka sink may write a record twice, so as a set."""
    records = [json.loads(value) for value in broker.consume("joined")]
    return {(record["order_id"], record.get("delivery_id")) for record in records}
