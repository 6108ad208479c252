"""Two users on one Spark Connect server: what each is told about the other's queries and arrangements.

``python two_users.py <address> <folder>`` prints a line for each question: who asks, for what, and the answer, in which
only the names of users show whose rows they are.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

import streamjoin as sj

SERVER, FOLDER = sys.argv[1], Path(sys.argv[2])
sessions: list[SparkSession] = []


def session(user: str, more: str = "") -> SparkSession:
    made: Any = SparkSession.builder.remote(f"{SERVER}/;user_id={user}{more}")
    spark: SparkSession = made.create()
    sessions.append(spark)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    spark.conf.set("spark.streamjoin.lateRows", "keep")
    spark.conf.set("spark.streamjoin.arrangements", str(FOLDER / "arrangements"))
    return spark


def feed(user: str, orders: str, at: str) -> None:
    for name, key, column in (("orders", orders, "t"), ("payments", "none", "u")):
        folder = FOLDER / user / name
        folder.mkdir(parents=True, exist_ok=True)
        row = f'{{"card": "{key}", "{column}": "2026-01-01T{at}Z"}}\n'
        (folder / f"{at.replace(':', '')}.json").write_text(row)


def joined(spark: SparkSession, user: str) -> DataFrame:
    def stream(name: str, time: str) -> DataFrame:
        read = spark.readStream.schema(f"card STRING, {time} TIMESTAMP").json(str(FOLDER / user / name))
        return read.withWatermark(time, "0 seconds")

    return sj.join(stream("orders", "t"), stream("payments", "u"), "card", within=("0 seconds", "1 hour"))


def start(writer: DataStreamWriter, checkpoint: Path) -> StreamingQuery:
    """Start a query. Spark waits ten seconds for a Python worker, which a busy machine may exceed."""
    for _ in range(4):
        try:
            return writer.start(checkpointLocation=str(checkpoint))
        except PySparkException as error:
            if "Python worker failed to connect back" not in str(error):
                raise
    return writer.start(checkpointLocation=str(checkpoint))


def started(spark: SparkSession, user: str, into: str | Callable[[DataFrame, int], None] = "noop") -> StreamingQuery:
    feed(user, f"of {user}", "09:00:00")
    writer = joined(spark, user).writeStream.queryName("payments")
    writer = writer.format(into) if isinstance(into, str) else writer.foreachBatch(into)
    query = start(writer, FOLDER / user / "checkpoint")
    query.processAllAvailable()
    feed(user, f"of {user}", "09:00:01")
    query.processAllAvailable()
    feed(user, f"late of {user}", "01:00:00")
    query.processAllAvailable()
    return query


def text(rows: list[Any]) -> str:
    """Return whose rows they are."""
    users = sorted(user for user in ("ann", "bob") if f"of {user}" in str(rows))
    return f"of {users[0]}" if len(users) == 1 else "found" if rows and not users else f"{len(rows)} rows, {users}"


def ask(who: str, spark: SparkSession, what: str, of: str) -> None:
    calls: dict[str, Callable[[], list[Any]]] = {
        "why": lambda: spark.sql("SELECT row FROM sj_why(:of, 'true')", args={"of": of}).collect(),
        "plan": lambda: spark.sql("SELECT plan FROM sj_explain_analyze(:of, true)", args={"of": of}).collect(),
        "figures": lambda: spark.sql("SELECT * FROM sj_figures(:of)", args={"of": of}).collect(),
        "late rows": lambda: spark.sql("SELECT row FROM sj_late_rows(:of)", args={"of": of}).collect(),
        "state": lambda: spark.read.format("streamjoin").option("query", of).option("operator", 1).load().collect(),
    }
    answers = set()
    for call in calls.values():
        try:
            answers.add(text(call()))
        except PySparkException as error:
            answers.add(str(error.getCondition()))
    print(f"{who} asks for {what}: {', '.join(sorted(answers))}", flush=True)


def rejected(who: str, what: str, call: Callable[[], Any]) -> None:
    try:
        call()
        print(f"{who} {what}: done", flush=True)
    except PySparkException as error:
        print(f"{who} {what}: {error.getCondition()}", flush=True)


def main() -> None:
    ann, bob = session("ann"), session("bob")
    running = started(ann, "ann")
    time.sleep(1)  # the figures of a batch are written a moment after its end
    ask("ann", ann, "payments", "payments")
    ask("ann", ann, "its id", str(running.id))
    ask("bob", bob, "payments", "payments")
    ask("bob", bob, "its id", str(running.id))
    own = started(bob, "bob")
    own.stop()
    ask("bob", bob, "his stopped payments", "payments")
    ask("ann", ann, "his id", str(own.id))
    ask("ann", ann, "payments", "payments")
    print("sj.late_rows:", text(sj.late_rows(running).collect()), "and", text(sj.late_rows(own).collect()))
    print("sj.state:", text(sj.state(running, operator=1).collect()), "and", text(sj.state(own, operator=1).collect()))
    running.stop()
    ask("bob", bob, "ann's id, now stopped", str(running.id))
    ask("ann again", session("ann"), "payments", "payments")
    same = session("ann", f";session_id={ann.session_id}")  # type: ignore[attr-defined]
    ask("ann's session by another client", same, "payments", "payments")

    def inside(batch: DataFrame, number: int) -> None:
        batch.collect()
        if number == 1:
            found = batch.sparkSession.sql("SELECT plan FROM sj_explain_analyze('payments')").count()
            (FOLDER / "inside").write_text(str(found))

    (FOLDER / "cy" / "checkpoint").parent.mkdir()
    inner = started(session("cy"), "cy", inside)
    print("foreachBatch finds its query:", (FOLDER / "inside").read_text())
    inner.stop()

    rejected("bob", "shares all", lambda: bob.conf.set("spark.streamjoin.shareQueries", "true"))
    bob.conf.set("spark.streamjoin.executorIndexMemory", "1k")
    rejected("bob", "takes the server's memory", lambda: started(bob, "bob"))
    bob.conf.unset("spark.streamjoin.executorIndexMemory")
    rejected("bob", "leaves it out", lambda: started(bob, "bob").stop())

    orders = ann.readStream.schema("card STRING, t TIMESTAMP").json(str(FOLDER / "ann" / "orders"))
    kept = sj.arrange(orders, "orders", keys="card").trigger(availableNow=True)
    kept.start(checkpointLocation=str(FOLDER / "ann" / "kept")).awaitTermination()
    changes = sj.arrangement("orders", spark=ann).changes().writeStream.format("noop").queryName("nightly")
    reads = changes.start(checkpointLocation=str(FOLDER / "ann" / "secret"))
    reads.processAllAvailable()
    seen = sj.arrangement("orders", spark=bob)
    (reader,) = seen.readers
    print("bob sees the reader", reader.name, len(reader.id), "secret" in str(seen._now()))
    rejected("bob", "releases it", lambda: seen.release(reader))
    rejected("bob", "drops it", lambda: seen.drop(force=True))
    forged = orders.selectExpr("unhex('aced0005') AS output", "1 AS one").drop("one")
    forged = forged.where("output IS NOT NULL").selectExpr("coalesce(output, X'') AS output")
    sink = forged.writeStream.format("streamjoin").option("path", str(FOLDER / "arrangements" / "orders"))
    rejected("bob", "writes bytes", lambda: sink.start(checkpointLocation=str(FOLDER / "forged")).awaitTermination())
    reads.stop()
    rejected("bob", "releases what has stopped", lambda: seen.release(reader))
    rejected("bob", "drops it", lambda: seen.drop(force=True))


try:
    main()
finally:
    # Python cannot close their channels once it ends, and waits for them.
    for each in sessions:
        each.stop()
