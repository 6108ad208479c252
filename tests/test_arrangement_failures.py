"""Arrangements and a delta join under kills, lost executors and retried tasks: every version is exact.

Two queries maintain arrangements (``jobs/delta_job.py``), a third one joins them, and two more look up one of them;
the last of these keeps rows without a match. Whatever happens to the processes, each version equals the input files up
to it, the changes from the join add up to their join, and each batch of a look-up is joined with the version that its
checkpoint names.
"""

import json
import os
import random
import sys
from pathlib import Path

import pytest
from changelogs import Changelogs, Rows, added
from conftest import LONG, printed_seed, run, running_cluster
from processes import Job

JOB = Path(__file__).with_name("jobs") / "delta_job.py"
CLUSTER_JOB = JOB.with_name("delta_cluster_job.py")
KILLS = int(os.environ.get("STREAMJOIN_KILLS", "2"))
NAMES = ("a", "b")


class Runs:
    """The processes that share one folder."""

    def __init__(self, changelogs: Changelogs, folder: Path) -> None:
        self.folder = folder
        command = [sys.executable, str(JOB), f"--input={changelogs.folder}", f"--output={folder}"]
        self.job = Job(command, folder / "log")

    def kill(self, chance: random.Random, look_up: str | None, *more: str) -> None:
        """Start a process, and kill it after one of its queries has finished a batch, or in a batch of a look-up."""
        others = [self.versions("a"), self.versions("b"), self.folder / "batches"]
        watched = self.folder / look_up if look_up else chance.choice(others)
        before = len(_numbers(watched))
        delay = 0 if look_up else chance.uniform(0, 0.7)
        still_ran = self.job.kill(lambda: len(_numbers(watched)) != before, *more, delay=delay)
        assert still_ran, f"it had ended: {self.job.said()}"

    def arrangement(self, name: str) -> Path:
        """Return the folder of an arrangement."""
        return self.folder / "arrangements" / name

    def versions(self, name: str) -> Path:
        """Return the folder with the manifests of an arrangement."""
        return self.arrangement(name) / "versions"

    def files_of(self, name: str) -> list[int]:
        """Return the number of input files up to each version, according to the checkpoint of its query.

        A process that dies between the file source's log and Spark's leaves two files for one batch.
        """
        checkpoint = self.folder / "checkpoints" / name
        entries: dict[str, int] = {}
        for log in (checkpoint / "sources" / "0").iterdir():
            if not log.name.startswith("."):
                lines = [json.loads(line) for line in log.read_text().splitlines()[1:]]
                entries |= {entry["path"]: entry["batchId"] for entry in lines}
        found = []
        for batch in _numbers(checkpoint / "commits"):
            last = json.loads((checkpoint / "offsets" / str(batch)).read_text().splitlines()[2])["logOffset"]
            found.append(sum(number <= last for number in entries.values()))
        return found

    def orphans(self, name: str) -> set[str]:
        """Return the files of an arrangement that no manifest refers to."""
        root = self.arrangement(name)
        files: dict[int, set[str]] = {}
        bases: dict[int, set[str]] = {}
        kept = 0
        for version in _numbers(root / "versions"):
            manifest = json.loads((root / "versions" / str(version)).read_text())
            files[version] = {f"versions/{version}"} | {file["path"] for file in manifest["changes"]}
            bases[version] = {file["path"] for file in manifest["base_files"]}
            # The later manifest keeps no base between the oldest and the newest.
            named_now = {base[1] for base in manifest["bases"]}
            # A kill may have interrupted the removal of the versions before these.
            kept = min([manifest["since"], *(base[0] for base in manifest["bases"])])
        needed = {"meta.json"}.union(*(paths for version, paths in files.items() if version >= kept))
        needed = needed.union(*(paths for version, paths in bases.items() if version in named_now))
        there = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
        assert needed <= there, f"{name}: {needed - there} are missing"
        named = {"meta.json", "caught_up.json", "maintainer.json"}.union(*files.values(), *bases.values())
        return {path for path in there - named if not path.startswith("readers/") and not path.endswith(".crc")}


def _numbers(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in folder.glob("*") if path.name.isdigit())


@pytest.mark.skipif(not LONG, reason="a part of make test-long; ArrangementFilesSuite has a failure at each call")
def test_killed_again_and_again(tmp_path: Path) -> None:
    seed = printed_seed()
    chance = random.Random(seed)
    files = 8 * KILLS
    changelogs = Changelogs(tmp_path / "input", files, seed, payload=20_000)
    runs = Runs(changelogs, tmp_path)
    left = 0
    for kill in range(KILLS):
        runs.kill(chance, {1: "looked", 2: "kept"}.get(kill % 5), *["--live"] * (kill % 2 == 0))
        left += sum(len(runs.orphans(name)) for name in NAMES)
    before = [len(_numbers(tmp_path / "checkpoints" / name / "commits")) for name in NAMES]
    assert max(before) < files, "it had ended before the last kill"
    runs.job.finish()

    for name in NAMES:
        of_version = runs.files_of(name)
        assert of_version[-1] == files
        newest = len(of_version) - 1
        there = _numbers(runs.versions(name))
        assert there == list(range(there[0], newest + 1)), f"{name}: versions are not those of the batches"
        read = json.loads((tmp_path / f"{name}.json").read_text())
        assert len(read) > 3
        for version, rows in read.items():
            seen = Rows(tuple(row) for row in rows)
            assert seen == changelogs.rows(name, of_version[int(version)]), f"{name}: version {version}"
        assert not runs.orphans(name), f"{name}: files that no manifest names"
    assert _numbers(runs.versions("a"))[0] > 0, "no base was written: nothing was removed"
    batches = _check_join(runs, changelogs)
    again = _check_look_ups(runs, changelogs, "looked")
    kept_again = _check_look_ups(runs, changelogs, "kept")
    print(f"{KILLS} kills, {batches} batches of the join; of the look-ups {again} and {kept_again} done again")
    print(f"kills left {left} files that no manifest names")


def _check_join(runs: Runs, changelogs: Changelogs) -> int:
    """Compare the sum of the join's changes after each batch; return the number of batches."""
    versions = {name: runs.files_of(name) for name in NAMES}
    now = Rows()
    folder = runs.folder / "batches"
    for batch in _numbers(folder):
        attempts = [json.loads(path.read_text()) for path in (folder / str(batch)).glob("*.json")]
        assert all(len({tuple(row[:-1]) for row in rows}) == len(rows) for rows in attempts), (
            f"batch {batch}: a row twice"
        )
        sums = [added(rows, now) for rows in attempts]
        assert all(one == sums[0] for one in sums), f"batch {batch} gave other rows when it was done again"
        now = sums[0]
        offsets = (runs.folder / "checkpoints" / "join" / "offsets" / str(batch)).read_text().splitlines()[2:]
        at = [json.loads(line)["version"] if line != "-" else -1 for line in offsets]
        files = [versions[name][version] if version >= 0 else 0 for name, version in zip(NAMES, at, strict=True)]
        assert now == changelogs.join(*files), f"batch {batch} at the versions {at}"
    last = [len(versions[name]) - 1 for name in NAMES]
    assert at == last, "the join has not come to the newest versions"
    return len(_numbers(folder))


def _check_look_ups(runs: Runs, changelogs: Changelogs, name: str) -> int:
    """Compare each batch with the version that its checkpoint names; return how many batches ran again."""
    files = runs.files_of(name)
    assert files[-1] == len(changelogs.b), "the stream was not read to its end"
    versions = runs.files_of("a")
    (chosen,) = (runs.folder / "checkpoints" / name / "tables").iterdir()
    again = late = 0
    kept: list[dict[str, object]] = []
    for batch, (begin, end) in enumerate(zip([0, *files], files, strict=False)):
        attempts = [json.loads(path.read_text()) for path in (runs.folder / name / str(batch)).glob("*.json")]
        version = json.loads((chosen / str(batch)).read_text().splitlines()[-1])["number"]
        table = changelogs.rows_of_a(versions[version]) if version >= 0 else Rows()
        matched: dict[object, list[tuple[object, object]]] = {
            row_k: [(a_id, at) for a_id, k, at in table if k == row_k] for row_k in range(12)
        }
        expected = Rows()
        for row in kept:
            expected.update((row["id"], row["n"], *match) for match in matched[row["k"]])
            late += bool(matched[row["k"]])
        kept = [row for row in kept if not matched[row["k"]]]
        for row in (row for rows in changelogs.b[begin:end] for row in rows):
            matches = matched.get(row["k"], [])
            expected.update((row["id"], row["n"], *match) for match in matches or [(None, None)])
            if name == "kept" and row["k"] is not None and not matches:
                kept.append(row)
        for rows in attempts:
            assert Rows(map(tuple, rows)) == expected, f"{name}: batch {batch} at version {version}"
        again += len(attempts) - 1
    if name == "kept":
        assert late > 0, "no row has got its match later"
        assert not kept or version == len(versions) - 1, "it has not come to the newest version"
    return again


@pytest.mark.skipif(not LONG, reason="a part of make test-long; joins alone on a cluster are in test_cluster.py")
@pytest.mark.parametrize("partitions", [2, 200])
def test_cluster(cluster: str, tmp_path: Path, partitions: int) -> None:
    _check_cluster(cluster, tmp_path, partitions)


@pytest.mark.skipif(not LONG, reason="a part of make test-long")
def test_a_worker_is_lost(tmp_path: Path) -> None:
    """Its executor is lost with it and is not replaced: the other executor takes over."""
    with running_cluster(tmp_path) as cluster:
        _check_cluster(cluster, tmp_path / "job", 40, "--lose=worker")


def _check_cluster(cluster: str, tmp_path: Path, partitions: int, *more: str) -> None:
    steps = 6
    killed = 3  # in the middle of this step
    changelogs = Changelogs(tmp_path / "input", steps, seed=5, payload=10)
    arguments = [f"--input={changelogs.folder}", f"--output={tmp_path}", f"--master={cluster}"]
    arguments += [f"--partitions={partitions}", *more]
    run([sys.executable, str(CLUSTER_JOB), *arguments], {"PYSPARK_PYTHON": sys.executable})

    now = Rows()
    loaded = []
    for step in range(steps):
        written = json.loads((tmp_path / f"{step}.json").read_text())
        now = added(written["changes"], now)
        assert now == changelogs.join(step + 1, step + 1), f"step {step}"
        loaded.append(written["loaded"])
        # The first batch has all rows. After it, few rows need no task for each partition.
        assert step == 0 or 0 < max(written["tasks"]) <= 4, f"step {step}: {written['tasks']}"
    for name in NAMES:
        read = json.loads((tmp_path / f"{name}.json").read_text())
        assert {int(version): Rows(map(tuple, rows)) for version, rows in read.items()} == {
            version: changelogs.rows(name, version + 1) for version in range(steps)
        }
    marks = {path.name for path in tmp_path.iterdir()}
    assert {"maintainer.failed", "maintainer.again", "join.failed", "join.again", "executor.lost"} <= marks

    for name in NAMES:
        for manifest in (tmp_path / "arrangements" / name / "versions").glob("[0-9]*"):
            assert len(json.loads(manifest.read_text())["changes"]) <= 7, "200 partitions are seven files"

    # Look-ups run where the index is: each index loads every change once.
    changed = [
        sum(_changes_by_second_key(tmp_path / "arrangements" / name, step) for name in NAMES) for step in range(steps)
    ]
    print(f"changed {changed}, loaded {loaded}")
    assert 0 < sum(loaded[:killed]) <= sum(changed[:killed])
    # The other executor loads what the lost one had, and so does its replacement.
    assert sum(loaded[killed:]) <= sum(changed[killed:]) + 2 * sum(changed)


def _changes_by_second_key(arrangement: Path, version: int) -> int:
    """Return the number of rows in a version's files for the index that the join looks up."""
    manifest = json.loads((arrangement / "versions" / str(version)).read_text())
    blocks = (block for file in manifest["changes"] for block in file["blocks"])
    return sum(rows for index, _, _, _, _, rows, _ in blocks if index == 1)
