"""From Kafka to Kafka through a real broker, with the job stopped or killed, and started again, between the rows."""

import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conftest import LONG, ROOT, TOOLS, printed_seed, run, together
from kafka_broker import KafkaBroker, connector_jars
from processes import Job
from spark_submit import environment, spark_submit

KILLS = min(5, int(os.environ.get("STREAMJOIN_KILLS", "1")))
ORDERS = 5000 if LONG else 2500


@pytest.mark.skipif(not LONG, reason="a part of make test-long; with files, restarts are in test_restart.py")
def test_kafka_to_kafka_with_a_restart_between(broker: KafkaBroker, tmp_path: Path) -> None:
    _create_topics(broker)
    broker.produce("orders", [_order(1, "10:00"), _order(2, "10:05"), _order(3, "10:10")])
    broker.produce("deliveries", [_delivery(11, 1, "10:20")])
    _run_job(broker, tmp_path)
    assert _joined(broker) == {(1, 11)}, "orders 2 and 3 wait in state"

    # Order 3 is delivered after more than an hour; the last row of each stream moves its watermark
    # past the others.
    broker.produce("deliveries", [_delivery(12, 2, "10:40"), _delivery(13, 3, "11:30"), _delivery(-1, -2, "20:00")])
    broker.produce("orders", [_order(-1, "20:00")])
    _run_job(broker, tmp_path)
    assert _joined(broker) == {(1, 11), (2, 12), (3, None)}

    # Both rows of order 4 are late and leave no trace. Order 5 is on time.
    broker.produce("orders", [_order(4, "10:30"), _order(5, "20:05")])
    broker.produce("deliveries", [_delivery(14, 4, "10:35"), _delivery(15, 5, "20:10")])
    _run_job(broker, tmp_path)
    assert _joined(broker) == {(1, 11), (2, 12), (3, None), (5, 15)}


class Jobs(NamedTuple):
    """What jobs have printed, one line of JSON per step, and the folder of each."""

    steps: dict[str, list[Any]]
    folder: Path


@pytest.fixture(scope="module")
def jobs(broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Jobs:
    """Run the jobs in one process."""
    folder = tmp_path_factory.mktemp("jobs")
    programs = {
        "bounds": [f"--checkpoint={folder / 'bounds'}"],
        "upserts": ["--topic=joined", f"--work={folder / 'upserts'}"],
        "changes": [f"--work={folder / 'changes'}"],
    }
    broker.create_topic("orders")
    broker.create_topic("deliveries", partitions=2)
    broker.create_topic("joined")
    _produce_changes(broker)
    commands = [
        [str(ROOT / "tests" / "jobs" / f"kafka_{name}_job.py"), f"--bootstrap={broker.bootstrap}", *arguments]
        for name, arguments in programs.items()
    ]
    printed = together(commands, partial(spark_submit, jars=connector_jars(TOOLS)), environment=environment())
    lines = [[json.loads(line) for line in text.splitlines() if line.startswith("[")] for text in printed]
    return Jobs(dict(zip(programs, lines, strict=True)), folder)


def test_bounds_of_each_partition(jobs: Jobs) -> None:
    assert jobs.steps["bounds"] == [[], [], [[1, 1]], [[1, 1], [2, None]]]


def test_upserts_of_a_delta_join(jobs: Jobs) -> None:
    first, second, other = ('{"order_id":1,"line":1}', '{"order_id":1,"line":2}', '{"order_id":2,"line":1}')
    # For each key: its cents, or null if it is removed, and the number of its records. The batch of
    # step 2 runs twice.
    assert jobs.steps["upserts"] == [
        [0, {first: [100, 1], second: [50, 1]}],
        [1, {first: [90, 2], second: [50, 1]}],
        [2, {first: [90, 2], second: [None, 3], other: [7, 2]}],
        [3, {first: [None, 3], second: [None, 3], other: [7, 2]}],
        [4, "STREAMJOIN_UPSERT_TARGET"],
    ]
    record = json.loads((jobs.folder / "upserts" / "checkpoints" / "joined" / "upsert-target" / "0").read_text())
    assert (record["kind"], record["micros"]) == ("kafka", True)
    assert record["ids"].keys() == {"cluster", "key", "topic", "topic id"}


def test_changes_without_a_time_have_the_order_of_their_topic(jobs: Jobs) -> None:
    assert jobs.steps["changes"] == [[[1, "a"], [3, "d"]]] * 2 + [[[1, "a"], [2, None], [3, "d"]]] * 2


def _produce_changes(broker: KafkaBroker) -> None:
    """Produce the changes of rows, as a flat log and as envelopes, and the rows that ask for them."""
    flat = [(1, "z", "c"), (1, "a", "u"), (2, "b", "c"), (2, None, "d"), (3, "c", "c"), (3, None, "d"), (3, "d", "c")]
    for topic in ("flat", "envelopes", "asked"):
        broker.create_topic(topic)
    broker.produce("flat", [json.dumps({"id": key, "v": v, "op": op}) for key, v, op in flat])
    noon = 1767268800000
    rows = [(op, noon, {"id": key, "v": v}) for key, v, op in flat]
    rows += [("c", noon + hours * 3600000, {"id": 9, "v": ""}) for hours in (2, 3)]
    envelopes = [{"before" if op == "d" else "after": row, "op": op, "ts_ms": at} for op, at, row in rows]
    broker.produce("envelopes", [json.dumps(envelope) for envelope in envelopes])
    asked = [(1, "12:30"), (2, "12:30"), (3, "12:30"), (9, "14:00"), (9, "15:00")]
    broker.produce("asked", [json.dumps({"asked": key, "time": _moment(at)}) for key, at in asked])


def _create_topics(broker: KafkaBroker) -> None:
    for topic in ("orders", "deliveries", "joined"):
        broker.create_topic(topic)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with KafkaBroker(TOOLS, tmp_path_factory.mktemp("broker") / "data") as running:
        yield running


def _order(order_id: int, at: str) -> str:
    return json.dumps({"order_id": order_id, "order_time": _moment(at), "customer": "c", "cents": 1})


def _delivery(delivery_id: int, order_id: int, at: str) -> str:
    row = {"delivery_id": delivery_id, "order_id": order_id, "delivery_time": _moment(at), "courier": "van"}
    return json.dumps(row)


def _moment(at: str) -> str:
    return f"2026-01-01T{at + ':00' * (at.count(':') == 1)}Z"


@pytest.mark.skipif(not LONG, reason="a part of make test-long; with files, kills are in test_restart.py")
def test_killed_again_and_again(broker: KafkaBroker, tmp_path: Path) -> None:
    """At least once, without gaps: the topic has all expected rows, some of them twice, and no others."""
    seed = printed_seed()
    chance = random.Random(seed)
    orders = [_order(number, _clock(number * 5)) for number in range(ORDERS)]
    lags = {number: chance.randrange(90 * 60) for number in range(ORDERS) if chance.random() < 0.9}
    delivered = sorted((number * 5 + lag, number) for number, lag in lags.items())
    deliveries = [_delivery(number, number, _clock(second)) for second, number in delivered]
    expected = {(number, number if lags.get(number, 9999) <= 3600 else None) for number in range(ORDERS)}

    _create_topics(broker)
    broker.produce("orders", orders)
    broker.produce("deliveries", deliveries)
    for _ in range(KILLS):
        _kill_job(broker, tmp_path, chance.uniform(0, 0.5))
    between = _records(broker)
    assert between.total() > 0 and set(between) < expected, "the kills came too early or too late"
    # Twice, because a new run does not repeat a batch without rows.
    for closing in ("20:00", "21:00"):
        broker.produce("orders", [_order(-1, closing)])
        broker.produce("deliveries", [_delivery(-1, -2, closing)])
        _run_job(broker, tmp_path)
    after = _records(broker)
    print(f"{KILLS} kills, {after.total()} records of {len(expected)} rows")
    assert {row for row in after if row[0] >= 0} == expected


def _clock(second: int) -> str:
    return f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"


def _kill_job(broker: KafkaBroker, work: Path, delay: float) -> None:
    """Start the job, and kill it ``delay`` seconds after it has committed a batch."""

    def commits() -> int:
        return max((int(path.name) for path in work.glob("checkpoint/commits/[0-9]*")), default=-1)

    before = commits()
    job = Job(_command(broker, work), work / "log", environment())
    assert job.kill(lambda: commits() > before, delay=delay), job.said()


def _run_job(broker: KafkaBroker, work: Path) -> None:
    run(_command(broker, work), environment())


def _command(broker: KafkaBroker, work: Path) -> list[str]:
    return spark_submit(
        ROOT / "examples" / "demo" / "orders_deliveries.py",
        "--source=kafka",
        f"--bootstrap={broker.bootstrap}",
        "--batch-rows=250",
        f"--work={work}",
        jars=connector_jars(TOOLS),
    )


def _joined(broker: KafkaBroker) -> set[tuple[int, int | None]]:
    """Return the pairs in the third topic, as a set because Spark's Kafka sink may write a record twice."""
    return set(_records(broker))


def _records(broker: KafkaBroker) -> Counter[tuple[int, int | None]]:
    """Return how often each pair is in the third topic."""
    records = [json.loads(value) for value in broker.consume("joined")]
    return Counter((record["order_id"], record.get("delivery_id")) for record in records)
