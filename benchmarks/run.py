"""Spark's own stream-stream join and streamjoin's, side by side: ``python benchmarks/run.py [--small | --full]``.

Each run is a process of its own, on the same files and with the same session settings. The rounds of a scenario go over
its sides in turn, so that a slow spell of the machine affects all of them. A table has runs of one command only: to
measure a scenario removes its earlier runs. Every result is checked: its counts against
DuckDB's batch answer, the hash of all its columns against that of the other sides; where a query runs again and again,
only an additional run in the first round, of which no time is taken, computes the hash. A difference ends the
benchmark.
Results are in ``benchmarks/results``: each run as soon as it has ended, the tables and a picture at the end.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from harness import runs as store
from harness.commands import continued_command, new_command
from harness.inputs import Streams, expected_asof, expected_join, expected_union, generate
from harness.machine import environment, inherited
from harness.rates import expected_at
from harness.report import report
from harness.runs import Record, Run, Runs, emitted
from harness.scenario import Scenario, current
from harness.scenarios import SELECTIONS, scenarios
from harness.sides import BY_NAME, FLOORS, PARTITIONS, Side

RESULTS = Path(__file__).with_name("results")


class Job(NamedTuple):
    """A run to do."""

    scenario: Scenario
    side: Side
    round: int


def main() -> None:
    """Run what the command line selects."""
    options = parse_arguments()
    selection = SELECTIONS[options.selection]
    scale = options.scale * selection.scale
    name = results_name(options)
    chosen = choose(scenarios(scale), options.scenarios or list(selection.names))
    jobs = plan(chosen, options.sides, options.rounds or selection.rounds)
    if options.list:
        for scenario in chosen:
            sides = dict.fromkeys(job.side.name for job in jobs if job.scenario is scenario)
            print(f"{scenario.name:<14} {scenario.title}\n{'':<14} {', '.join(sides)}")
        return
    if not options.report_only:
        Benchmark(jobs, scale, options.work.resolve(), RESULTS / f"{name}.jsonl", options.limit).run(options.resume)
    print(f"\n{report(RESULTS, name, scale)}\n\nAll of it: {(RESULTS / name).relative_to(RESULTS.parent.parent)}.md")


def parse_arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description="Spark's own stream-stream join and streamjoin's, side by side.")
    size = parser.add_mutually_exclusive_group()
    parser.set_defaults(selection="headline")
    for selection, words in (("small", "some scenarios at 0.3 of their size, 1 round"), ("full", "all scenarios")):
        size.add_argument(f"--{selection}", dest="selection", action="store_const", const=selection, help=words)
    parser.add_argument("--scenarios", nargs="+", metavar="NAME", help="only these, or groups such as w2 and growth")
    parser.add_argument("--sides", nargs="+", choices=BY_NAME, help="only these; results have another name")
    parser.add_argument("--rounds", type=int, help="how many (default: 3, with --small 1)")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="multiply the numbers of rows; results have another name"
    )
    parser.add_argument("--limit", type=float, default=1800, help="seconds after which a run is ended (default: 1800)")
    parser.add_argument("--work", type=Path, default=Path("build/bench"), help="folder for inputs and checkpoints")
    parser.add_argument("--resume", action="store_true", help="continue the last command: do the runs that are missing")
    parser.add_argument("--report-only", action="store_true", help="run nothing, write the tables again")
    parser.add_argument("--list", action="store_true", help="list the scenarios and their sides")
    return parser.parse_args()


def results_name(options: argparse.Namespace) -> str:
    """Return the name of the results: those of a part, by sides or by scale, leave the others as they are."""
    part = ("-xsides" if options.sides else "") + ("" if options.scale == 1 else f"-x{options.scale:g}")
    return f"{options.selection}{part}"


def choose(all_scenarios: dict[str, Scenario], names: list[str]) -> list[Scenario]:
    """Return the scenarios with these names or in these groups, all of them without names."""
    known = {*all_scenarios, *(scenario.group for scenario in all_scenarios.values())}
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"No such scenario: {', '.join(unknown)}. There are: {', '.join(sorted(known))}")
    return [
        scenario
        for scenario in all_scenarios.values()
        if not names or scenario.name in names or scenario.group in names
    ]


def plan(chosen: list[Scenario], sides: list[str] | None, rounds: int) -> list[Job]:
    """Return the runs in their order: by scenario, by round, by side."""
    return [
        Job(scenario, BY_NAME[side], number)
        for scenario in chosen
        for number in range(1, min(rounds, scenario.rounds or rounds) + 1)
        for side in scenario.sides
        if sides is None or side in sides
    ]


class Benchmark:
    """Does runs one after the other, checks their results and keeps them in a file."""

    def __init__(self, jobs: list[Job], scale: float, work: Path, file: Path, limit: float):
        self.jobs = jobs
        self.scale = scale
        self.work = work
        self.file = file
        self.limit = limit
        self.runs = Runs([])
        self.command = ""

    def run(self, resume: bool) -> None:
        """Do the runs.

        Args:
            resume: continue the last command in the file. Otherwise all earlier runs of the same scenarios are removed;
                the file keeps those of others in any case.
        """
        kept = current(store.read(self.file), scenarios(self.scale))
        again = {job.scenario.name for job in self.jobs}
        self.command, records = (continued_command if resume else new_command)(kept, again)
        store.write(self.file, records)
        self.runs = Runs(records)
        done = {(run.scenario, run.side, run.round) for run in self.runs.all()}
        for number, job in enumerate(self.jobs, 1):
            title = f"[{number}/{len(self.jobs)}] {job.scenario.name}, round {job.round}, {job.side.name}"
            if (job.scenario.name, job.side.name, job.round) in done:
                print(f"{title}: kept", flush=True)
                continue
            if not self.runs.finished(job.scenario.name, job.side.name):
                print(f"{title}: left out, for it did not finish before", flush=True)
                continue
            record = self._measure(job)
            if record is None:
                print(f"{title}: left out, for the engine reports no indexBytes", flush=True)
                continue
            run = Run(record)
            if run.finished:
                self._check(job, record)
            store.append(self.file, record)
            self.runs.add(run)
            print(f"{title}: {'' if run.finished else 'not finished after '}{run.wall:.1f} s", flush=True)

    def _measure(self, job: Job) -> Record | None:
        """Return the record of a run, or None if its budget is unknown."""
        if job.scenario.kind != "rate":
            generate(job.scenario.streams, self.work)
        own: Record = {
            "run": self.command,
            "scenario": job.scenario.name,
            "inputs": job.scenario.streams.full_name,
            "side": job.side.name,
            "sideVersion": job.side.version,
            "round": job.round,
        }
        settings: list[str] = []
        if job.side.budget_of is not None:
            budget = self._budget(job.scenario, job.side.budget_of)
            if budget is None:
                return None
            own["budgetBytes"] = budget
            settings = [f"spark.streamjoin.indexMemory={budget}b"]
        try:
            if job.scenario.kind == "rebuild":
                before = self._process(job, settings, "begin")
                after = self._process(job, settings, "continue")
                measured = continued(before, after)
            else:
                measured = self._process(job, settings, "whole")
        except subprocess.TimeoutExpired:
            measured = {"unfinished": True, "wall": self.limit, "batches": {}, "operator": None}
        versions: dict[str, str] = measured.pop("versions", {})
        program = f"python benchmarks/{Path(sys.argv[0]).name}"
        return own | measured | {"environment": environment(program, ["--work"]) | versions}

    def _budget(self, scenario: Scenario, side: str) -> int | None:
        """Return a quarter of what a task's index takes without a budget, bytes."""
        peak = self.runs.median(scenario.name, side, lambda run: run.most("indexBytes"))
        return None if peak is None else int(peak) // PARTITIONS // 4

    def _process(self, job: Job, settings: list[str], part: str) -> Record:
        """Do a run in a process of its own, which prints its record last.

        Raises:
            subprocess.TimeoutExpired: It took longer than the limit. Its JVM ends with it (PythonGatewayServer reads
                its standard input to the end).
        """
        command = [sys.executable, "-m", "harness.measure"]
        command += ["--scenario", job.scenario.name, "--scale", str(self.scale), "--side", job.side.name]
        command += ["--work", str(self.work), "--part", part, "--conf", *settings]
        if job.round == 1 and job.scenario.kind == "time" and job.scenario.warms_up:
            command.append("--check")
        variables = inherited()
        path = [str(Path(__file__).resolve().parent), os.environ.get("PYTHONPATH", "")]
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, path))
        done = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=self.limit)
        if done.returncode != 0:
            sys.exit(f"{done.stderr}\n{job.scenario.name}, {job.side.name}: exit code {done.returncode}")
        record: Record = json.loads(done.stdout.splitlines()[-1])
        return record

    def _check(self, job: Job, record: Record) -> None:
        """End the benchmark if a run has another result than DuckDB or than the other sides."""
        where = f"{job.scenario.name}, round {job.round}, {job.side.name}"
        for counts, all_expected in results(job, record, self.work):
            expected = all_expected[: len(counts)]
            if counts != expected:
                sys.exit(f"{where}: {counts} rows and matched rows were emitted, DuckDB has {expected}")
        if "hash" not in record:
            return
        others = [side for side in job.scenario.sides if (side in FLOORS) == (job.side.name in FLOORS)]
        for run in (run for side in others for run in self.runs.of(job.scenario.name, side)):
            if run.finished and run.record.get("hash", record["hash"]) != record["hash"]:
                sys.exit(f"{where}: as many rows as with {run.side} in round {run.round}, but not the same")


def results(job: Job, record: Record, work: Path) -> list[tuple[list[int], list[int]]]:
    """Return what a run counted and what DuckDB counts, each as all rows and those with a row of the last stream.

    A run without an observation counted all rows only.
    """
    streams = job.scenario.streams
    if job.scenario.kind == "rate":
        return [(trial["counts"], at_rate(job, streams, trial["numbers"])) for trial in record["trials"]]
    if job.side.engine == "floor":
        expected = expected_union(streams, work)
    elif job.scenario.temporal:
        expected = expected_asof(streams, work)
    else:
        expected = expected_join(streams, job.scenario.how, work)
    return [(emitted(record), expected)]


def at_rate(job: Job, streams: Streams, count: int) -> list[int]:
    """Return what DuckDB counts for a trial that read so many rows of each stream."""
    return [2 * count, count] if job.side.engine == "floor" else expected_at(streams, count)


def continued(before: Record, after: Record) -> Record:
    """Return the record of a query that one process began and another continued: times are those of the latter."""
    return after | {
        "counts": [sum(pair) for pair in zip(before["counts"], after["counts"], strict=True)],
        "hash": before["hash"] + after["hash"],
        "rowsOut": before["rowsOut"] + after["rowsOut"],
        "inputRows": before["inputRows"] + after["inputRows"],
        "rowsBefore": before["batches"]["numRowsTotal"][-1],
    }


if __name__ == "__main__":
    main()
