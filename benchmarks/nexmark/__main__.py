"""Nexmark's queries with joins, by Spark's own join and by streamjoin: ``make bench-nexmark``.

Each run is a process of its own, on the same files and with the same session settings. The rounds of a query go over
its sides in turn. A table has runs of one command only: to measure a query in a setting removes its earlier runs. The
number of rows of each run is compared with DuckDB's, and so is the sum of their checksums in runs that are not compared
by their speed. A difference ends the benchmark, except for variants of which it is known that Spark's own join loses
rows; the tables show how many. Each run is kept in ``benchmarks/results/nexmark.jsonl`` as soon as it has ended, and
the tables in ``benchmarks/results/nexmark.md``.
"""

import argparse
import json
import subprocess
import sys
import uuid
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from harness.commands import continued_command, new_command
from harness.machine import environment, inherited
from harness.measure import WARM_UP_SECONDS
from harness.runs import Record, append, read, write
from harness.sides import BY_NAME

from nexmark.generator import Setting, generate
from nexmark.measure import PARTS, Run
from nexmark.queries import ALL, BY_VARIANT, Query, Variant, expected
from nexmark.report import report

RESULTS = Path(__file__).resolve().parent.parent / "results" / "nexmark.md"
SPARK = ("spark-default", "spark-rocksdb-changelog", "spark-rocksdb-v4")
OURS = ("ours-default",)
SIDES = (*SPARK, *OURS, "ours-rocksdb")
SETTINGS = ("published", "long")


@dataclass(frozen=True)
class Job:
    """A run to do: in which setting, and which round of it."""

    setting: str
    round: int
    run: Run

    @property
    def scenario(self) -> str:
        """The query in its setting: what one table is about."""
        return f"{self.setting}, {BY_VARIANT[self.run.variant][0].name}"

    @property
    def title(self) -> str:
        """What it is, for the reader."""
        return f"{self.setting}, {self.run.part}, {self.run.variant}, round {self.round}, {self.run.side}"


def main() -> None:
    """Run what the command line selects, and write the tables."""
    options = parse_arguments()
    file = options.results.with_suffix(".jsonl")
    if not options.report_only:
        jobs = plan(options)
        chosen = {job.scenario for job in jobs}
        command, done = (continued_command if options.resume else new_command)(read(file), chosen)
        write(file, done)
        run_all(jobs, file, done, options, command)
    options.results.write_text(report(read(file)))
    print(options.results.read_text())


def parse_arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    default = Setting()
    parser = argparse.ArgumentParser(description="Nexmark's queries with joins, on Spark.")
    parser.add_argument("--queries", nargs="+", metavar="NAME", help="only these, such as q9")
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=SETTINGS, help="of how long auctions live")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what is measured")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=(*SPARK, *OURS), help="only these")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each side (default: 3)")
    parser.add_argument("--events", type=int, default=default.events, help="of all kinds (default: 10 million)")
    parser.add_argument("--rate", type=int, default=default.rate, help="events a second of event time (10,000)")
    parser.add_argument("--file-events", type=int, default=default.file_events, help="events in a batch (100,000)")
    parser.add_argument("--group", type=int, default=1, help="events change places in groups of so many (1: in order)")
    parser.add_argument("--in-flight", type=int, default=100, help="open auctions of the setting published (100)")
    parser.add_argument("--long-in-flight", type=int, default=10_000, help="those of the setting long (10,000)")
    parser.add_argument("--warm-up", type=float, default=0.5, help="share of the events that is not measured (0.5)")
    parser.add_argument(
        "--warm-up-seconds", type=float, default=WARM_UP_SECONDS, help="that pass before any are measured (120)"
    )
    parser.add_argument(
        "--measured-seconds", type=float, default=30, help="for which events are measured at least (30)"
    )
    parser.add_argument("--live-rate", type=int, default=10_000, help="events a second that arrive (10,000)")
    parser.add_argument("--live-seconds", type=int, default=180, help="for which they arrive (180)")
    parser.add_argument("--master", default="local[2]", help="of Spark; inputs have to be in a folder that all see")
    parser.add_argument("--partitions", type=int, default=2, help="of shuffles and of the state (2)")
    parser.add_argument("--memory", default="6g", help="of the driver (6g)")
    parser.add_argument("--conf", nargs="*", default=[], help="more settings of all sessions, key=value")
    parser.add_argument(
        "--kafka", metavar="ADDRESS", help="of a broker: events come from topics that are created there"
    )
    parser.add_argument("--topic-partitions", type=int, default=1, help="partitions of these topics (1)")
    parser.add_argument("--limit", type=float, default=1800, help="seconds after which a run is ended (1800)")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--work", type=Path, default=Path("build/bench-nexmark"))
    parser.add_argument("--resume", action="store_true", help="keep the runs that there are, do those that are missing")
    parser.add_argument("--report-only", action="store_true", help="run nothing, write the tables again")
    parser.add_argument("--smoke", action="store_true", help="all of it small, once, to see that it works")
    options = parser.parse_args()
    if options.smoke:
        small = {"rounds": 1, "events": 100_000, "file_events": 10_000, "live_rate": 2000, "live_seconds": 10}
        small |= {"warm_up_seconds": 0, "measured_seconds": 0}
        vars(options).update(small)
        if options.results == RESULTS:
            options.results = options.work / "smoke.md"
    return options


def plan(options: argparse.Namespace) -> list[Job]:
    """Return the runs in their order: by query, setting, part, round, variant and side."""
    return [
        Job(setting, number, job_run(options, setting, part, variant.file, side))
        for query in chosen(options.queries)
        for setting in options.settings
        if options.queries or query.expires or setting == "published"
        for part in options.parts
        # Neither the heap nor the batches at a fixed rate are compared round by round.
        for number in range(1, 1 + (options.rounds if part == "throughput" else 1))
        for variant in query.variants
        for side in options.sides
        if runs(query, variant, side)
    ]


def chosen(names: list[str] | None) -> list[Query]:
    """Return the queries with these names; all of them without names."""
    by_name = {query.name: query for query in ALL}
    if unknown := set(names or ()) - set(by_name):
        sys.exit(f"No such query: {', '.join(sorted(unknown))}. There are: {', '.join(by_name)}")
    return [query for query in ALL if not names or query.name in names]


def runs(query: Query, variant: Variant, side: str) -> bool:
    """Tell whether a side runs a variant."""
    if BY_NAME[side].engine == "ours":
        return variant.ours
    return variant.spark and (side == SPARK[0] or query.stores(variant))


def job_run(options: argparse.Namespace, setting: str, part: str, variant: str, side: str) -> Run:
    """Return what a process has to do."""
    in_flight = options.in_flight if setting == "published" else options.long_in_flight
    made = Setting(options.events, options.rate, in_flight, options.file_events, options.group)
    if part == "live":
        # A file a second, at the same lifetimes.
        live = in_flight * options.live_rate // options.rate
        events = options.live_rate * options.live_seconds
        made = Setting(events, options.live_rate, live, options.live_rate, options.group)
    conf = {
        "spark.master": options.master,
        "spark.sql.shuffle.partitions": str(options.partitions),
        "spark.driver.memory": options.memory,
    }
    if options.kafka:
        conf["spark.jars"] = connector()
    conf |= dict(each.split("=", 1) for each in options.conf)
    work = options.work.resolve()
    seconds = (options.warm_up_seconds, options.measured_seconds)
    return Run(made, variant, side, part, work, 1.0, conf, options.warm_up, *seconds)


def connector() -> str:
    """Return the jars of Spark's Kafka connector, as the demo fetches them."""
    root = Path(__file__).resolve().parents[2]
    sys.path.append(str(root / "examples" / "demo"))
    from kafka_broker import connector_jars

    return ",".join(str(jar) for jar in connector_jars(root / ".tools"))


def run_all(jobs: list[Job], file: Path, done: list[Record], options: argparse.Namespace, command: str) -> None:
    """Do the runs, and keep each as soon as it has ended. A side that takes longer than the limit is not run again."""
    known = {key(record) for record in done}
    ended = {key(record)[:-1] for record in done if record.get("unfinished")}
    for number, job in enumerate(jobs, 1):
        own: Record = {
            "run": command,
            "scenario": job.scenario,
            "setting": job.setting,
            "part": job.run.part,
            "variant": job.run.variant,
            "side": job.run.side,
            "round": job.round,
            "sizes": asdict(job.run.setting),
        }
        if key(own) in known or key(own)[:-1] in ended:
            print(f"[{number}/{len(jobs)}] {job.title}: left out", flush=True)
            continue
        inputs = generate(job.run.setting, job.run.work)
        where = environment("python -m nexmark", ["--work", "--results"])
        record = own | measured(job, options) | {"environment": where}
        if record.get("unfinished"):
            ended.add(key(own)[:-1])
        else:
            record["lost"] = compared(job, record["counts"], inputs)
        record["environment"] |= record.pop("versions", {})
        append(file, record)
        print(f"[{number}/{len(jobs)}] {job.title}: {record['wall']:.1f} s", flush=True)


def compared(job: Job, counts: list[int], inputs: Path) -> int:
    """Return how many of DuckDB's rows a run has lost; end the benchmark if that is not known of its variant."""
    query, variant = BY_VARIANT[job.run.variant]
    wanted = expected(query, job.run.setting, inputs)[: len(counts)]
    if counts == wanted:
        return 0
    if variant.loses and BY_NAME[job.run.side].engine == "spark" and counts[0] < wanted[0]:
        return wanted[0] - counts[0]
    sys.exit(f"{job.title}: rows (and checksum) {counts}, DuckDB has {wanted}")


def key(record: Record) -> tuple[str, ...]:
    """Return what a record is of; the last part is the round."""
    names = ("setting", "part", "variant", "side", "sizes", "round")
    return tuple(json.dumps(record[name]) for name in names)


def measured(job: Job, options: argparse.Namespace) -> Record:
    """Do a run in a process of its own, which prints its record last."""
    run = job.run
    if options.kafka:
        run = replace(run, kafka=(options.kafka, new_topic(options.kafka, options.topic_partitions)))
    command = [sys.executable, "-m", "nexmark.measure", json.dumps(asdict(run), default=str)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=inherited(), timeout=options.limit)
    except subprocess.TimeoutExpired:
        # Its JVM ends with it, because it reads its standard input to the end.
        return {"unfinished": True, "wall": options.limit}
    if done.returncode:
        sys.exit(f"{done.stderr}\n{job.title}: exit code {done.returncode}")
    record: Record = json.loads(done.stdout.splitlines()[-1])
    return record


def new_topic(address: str, partitions: int) -> str:
    """Create a topic for one run, and return its name."""
    from kafka import KafkaAdminClient

    topic = f"nexmark-{uuid.uuid4().hex[:8]}"
    with KafkaAdminClient(bootstrap_servers=address) as admin:
        admin.create_topics({topic: {"num_partitions": partitions, "replication_factor": 1}})
    return topic


if __name__ == "__main__":
    main()
