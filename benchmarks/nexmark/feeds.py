"""How events arrive: as files, or as the records of a Kafka topic, one file's worth after the other."""

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from nexmark.generator import CLOSING, KINDS, Setting, connect, rows

# The types of a record's structs, as the files have them.
SCHEMAS = {
    "person": (
        "id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING, "
        "dateTime TIMESTAMP, extra STRING"
    ),
    "auction": (
        "id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, dateTime TIMESTAMP, "
        "expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING"
    ),
    "bid": (
        "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP, extra STRING"
    ),
}
RECORD = "event_type INT, " + ", ".join(f"{kind} STRUCT<{SCHEMAS[kind]}>" for kind in KINDS)


class Feed(Protocol):
    """Events that arrive in steps, and the streams of them."""

    def publish(self, number: int) -> None:
        """Let the events of one file arrive; the last one has the closing rows."""

    def stream(self, spark: SparkSession, kind: str) -> DataFrame:
        """Return the stream of a kind, without a watermark."""


class FileFeed:
    """Folders of files that arrive one after the other, as links to the files of the generator.

    Args:
        inputs: the folder with a folder of each kind.
        arrived: the folder that queries read; it is emptied.
        kinds: which kinds arrive.
        per_batch: how many files of a kind a batch reads at most; None for all that there are.
    """

    def __init__(self, inputs: Path, arrived: Path, kinds: Iterable[str], per_batch: int | None = 1) -> None:
        self.inputs = inputs
        self.arrived = arrived
        self.kinds = tuple(kinds)
        self.per_batch = per_batch
        shutil.rmtree(arrived, ignore_errors=True)
        for kind in self.kinds:
            (arrived / kind).mkdir(parents=True)

    def publish(self, number: int) -> None:
        """Link the file with a number, of each kind."""
        for kind in self.kinds:
            name = f"{number:05}.parquet"
            (self.arrived / kind / name).hardlink_to(self.inputs / kind / name)

    def stream(self, spark: SparkSession, kind: str) -> DataFrame:
        """Return the stream of a kind, without a watermark."""
        reader = spark.readStream.schema(SCHEMAS[kind])
        if self.per_batch is not None:
            reader = reader.option("maxFilesPerTrigger", self.per_batch)
        return reader.parquet(str(self.arrived / kind))


class TopicFeed:
    """A Kafka topic that has a record for each event of any kind, in the published form.

    Args:
        setting: of the events.
        bootstrap: the address of the brokers.
        topic: its name; it exists and is empty.
        per_batch: whether a batch reads the events of one file at most, or all that there are.
    """

    def __init__(self, setting: Setting, bootstrap: str, topic: str, per_batch: bool = True) -> None:
        from kafka import KafkaProducer

        self.setting = setting
        self.bootstrap = bootstrap
        self.topic = topic
        self.per_batch = per_batch
        self._producer: Any = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=20)
        self._partitions = len(self._producer.partitions_for(topic))

    def publish(self, number: int) -> None:
        """Send the records of the events of a file, in turn to all partitions, so that none is ahead in time."""
        for place, record in enumerate(records(self.setting, number)):
            self._producer.send(self.topic, record.encode(), partition=place % self._partitions)
        self._producer.flush()

    def stream(self, spark: SparkSession, kind: str) -> DataFrame:
        """Return the stream of a kind, without a watermark."""
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", self.bootstrap)
        reader = reader.option("subscribe", self.topic).option("startingOffsets", "earliest")
        if self.per_batch:
            reader = reader.option("maxOffsetsPerTrigger", self.setting.file_events)
        return events(reader.load(), kind)


def events(records: DataFrame, kind: str) -> DataFrame:
    """Return the rows of one kind from records, which have their text in the column ``value``."""
    parsed = records.select(F.from_json(F.col("value").cast("string"), RECORD).alias("record"))
    return parsed.where(F.col("record.event_type") == KINDS.index(kind)).select(f"record.{kind}.*")


def records(setting: Setting, number: int) -> Iterator[str]:
    """Yield the records of the events of a file, in the order of arrival; the last file has the closing rows.

    A record is JSON with ``event_type``, 0 for a person, 1 for an auction and 2 for a bid, and a field for each kind,
    two of which are null. Times are in ISO 8601.
    """
    first = number * setting.file_events
    until = min(first + setting.file_events, setting.events)
    made = [
        f"""SELECT {_text(kind, number_of_kind)} AS record, place FROM ({_placed(setting, kind, number, first, until)})
        AS made"""
        for number_of_kind, kind in enumerate(KINDS)
    ]
    with connect() as db:
        cursor = db.execute(f"SELECT record FROM ({' UNION ALL '.join(made)}) ORDER BY place")
        while part := cursor.fetchmany(10_000):
            yield from (record for (record,) in part)


def _placed(setting: Setting, kind: str, number: int, first: int, until: int) -> str:
    """Return the SQL of the rows of a file with their place in the order of arrival."""
    if number == setting.files:
        return f"SELECT *, {KINDS.index(kind)} AS place FROM ({CLOSING[kind]})"
    return rows(setting, kind, first, until, more=", place")


def _text(kind: str, event_type: int) -> str:
    """Return the SQL of the record of a row of ``made``."""
    columns = [each.split() for each in SCHEMAS[kind].split(", ")]
    values = ", ".join(
        f"{name} := " + (f"strftime({name}, '%Y-%m-%dT%H:%M:%S.%gZ')" if spark_type == "TIMESTAMP" else name)
        for name, spark_type in columns
    )
    fields = ", ".join(f"{each} := " + (f"struct_pack({values})" if each == kind else "NULL") for each in KINDS)
    return f"to_json(struct_pack(event_type := {event_type}, {fields}))"
