"""A real Kafka broker for demos and tests: one KRaft node on free ports of this machine.

The broker is plain Java classes, fetched with Maven and started with ``java``; no installation of Kafka is needed.
Topics are made, written and read by a client in Python: a command line tool of Kafka's is a JVM for each call.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

KAFKA = "4.1.1"
# Spark's connector, of the line of the installed PySpark. Maven's registry has none of 4.3 yet, so
# that of 4.2 stands in.
CONNECTOR = {"4.1": "4.1.3"}.get(".".join(pyspark.__version__.split(".")[:2]), "4.2.0")

# Group, artifact, version, and what of its dependencies to leave out.
_Dependency = tuple[str, str, str, tuple[str, ...]]
_BROKER: list[_Dependency] = [
    ("org.apache.kafka", "kafka_2.13", KAFKA, ()),
    ("org.slf4j", "slf4j-nop", "1.7.36", ()),
]
# Written out, without what they depend on: Spark has the rest, and Spark's pom adds a repository of
# its own for dependencies of dependencies, which not every network reaches.
_CONNECTOR: list[_Dependency] = [
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", CONNECTOR, ("*",)),
    # Not every registry has it for Spark 4. Without delegation tokens the connector needs little of
    # it, and that part has not changed.
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "3.5.1", ("*",)),
    ("org.apache.kafka", "kafka-clients", "3.9.2", ("*",)),
    ("org.apache.commons", "commons-pool2", "2.13.1", ("*",)),
]

# Sixteen bytes in URL-safe base 64. Not a random one: the tool takes an id that starts with "-" for
# an option.
_CLUSTER = "c3RyZWFtam9pbi10ZXN0cw"
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={logs}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


def connector_jars(tools: Path) -> list[Path]:
    """Return Spark's Kafka connector and what it needs beyond Spark's own jars, fetched the first time."""
    return sorted(_fetched(f"spark-kafka-{CONNECTOR}", _CONNECTOR, tools).glob("*.jar"))


def _fetched(name: str, dependencies: list[_Dependency], tools: Path) -> Path:
    """Return the folder with the jars of the dependencies, fetched the first time."""
    jars = tools / "kafka" / name / "jars"
    if not jars.exists():
        unfinished = jars.with_name("unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        jars.parent.mkdir(parents=True, exist_ok=True)
        pom = jars.with_name("pom.xml")
        pom.write_text(_pom(name, dependencies))
        subprocess.run(
            [
                *("mvn", "-q", "-B", "-f", str(pom), f"-Dmaven.repo.local={tools / 'm2'}"),
                *("dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={unfinished}"),
            ],
            check=True,
        )
        unfinished.rename(jars)
    return jars


def _pom(name: str, dependencies: list[_Dependency]) -> str:
    listed = ""
    for group, artifact, version, left_out in dependencies:
        exclusions = "".join(
            f"<exclusion><groupId>*</groupId><artifactId>{each}</artifactId></exclusion>" for each in left_out
        )
        listed += (
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
            f"<version>{version}</version><exclusions>{exclusions}</exclusions></dependency>\n"
        )
    return (
        "<project><modelVersion>4.0.0</modelVersion>"
        f"<groupId>streamjoin</groupId><artifactId>{name}</artifactId><version>1</version>\n"
        f"<dependencies>\n{listed}</dependencies></project>\n"
    )


class KafkaBroker:
    """A broker that runs while its ``with`` block does.

    Args:
        tools: Folder for what Maven fetches, once.
        work: Folder for the broker's data and log, removed first.
    """

    def __init__(self, tools: Path, work: Path) -> None:
        self._classpath = f"{_fetched('broker', _BROKER, tools)}/*"
        self._work = work

    def __enter__(self) -> Self:
        shutil.rmtree(self._work, ignore_errors=True)
        self._work.mkdir(parents=True)
        broker, controller = _free_ports(2)
        self.bootstrap = f"127.0.0.1:{broker}"
        properties = self._work / "server.properties"
        properties.write_text(_PROPERTIES.format(broker=broker, controller=controller, logs=self._work / "data"))
        self._run("kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(properties))
        log = (self._work / "broker.log").open("wb")
        with log:
            self._process = subprocess.Popen(
                self._java("kafka.Kafka", str(properties)), stdout=log, stderr=subprocess.STDOUT
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Create an empty topic, by default of one partition, which keeps the order of its records."""
        deadline = time.monotonic() + 60
        while True:
            try:
                with KafkaAdminClient(bootstrap_servers=self.bootstrap) as admin:
                    if name in admin.list_topics():
                        admin.delete_topics([name])
                    admin.create_topics({name: {"num_partitions": partitions, "replication_factor": 1}})
                return
            except KafkaError:  # until the broker is up
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.2)

    def produce(self, topic: str, values: Iterable[str]) -> None:
        """Append a record for each value, in this order."""
        with KafkaProducer(bootstrap_servers=self.bootstrap) as producer:
            sent = [producer.send(topic, value.encode(), partition=0) for value in values]
            for each in sent:
                each.get(timeout=60)

    def consume(self, topic: str) -> list[str]:
        """Return the values of all records that a topic has now, in their order."""
        partition = TopicPartition(topic, 0)
        values: list[str] = []
        with KafkaConsumer(bootstrap_servers=self.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([partition])
            end = consumer.end_offsets([partition])[partition]
            while consumer.position(partition) < end:
                for records in consumer.poll(timeout_ms=1000).values():
                    values += [record.value.decode() for record in records if record.offset < end]
        return values

    def count(self, topic: str) -> int:
        """Return how many records a topic has."""
        partition = TopicPartition(topic, 0)
        with KafkaConsumer(bootstrap_servers=self.bootstrap) as consumer:
            return int(consumer.end_offsets([partition])[partition])

    def _run(self, main: str, *args: str) -> None:
        done = subprocess.run(self._java(main, *args), capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            raise RuntimeError(f"{main} {args} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")

    def _java(self, main: str, *args: str) -> list[str]:
        home = os.environ.get("JAVA_HOME")
        java = str(Path(home, "bin", "java")) if home else "java"
        return [java, "-Xmx512m", "-cp", self._classpath, main, *args]


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
