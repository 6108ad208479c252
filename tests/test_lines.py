"""A checkpoint that one line of Spark creates continues on the next ones, each in an environment of its own."""

import os
import sys
import tarfile
from pathlib import Path

import pytest
from conftest import LINE, LINES, LONG, ROOT, run
from queries import PROVIDERS
from test_golden import GOLDEN, JOB, STORES, batch_answer, written

TYPES = ["inner", "left_outer", "right_outer", "full_outer", "left_semi", "left_anti", "temporal", "asof"]
FILES = 8

# The Python of each line: see the Makefile.
PYTHONS = {
    name: ROOT / (".venv" if line.is_default else f".venv-{name}") / "bin" / "python" for name, line in LINES.items()
}
PYTHONS[LINE] = Path(sys.executable)
MISSING = [line for line, python in PYTHONS.items() if not python.exists()]


@pytest.mark.skipif(bool(MISSING), reason=f"no environment for {MISSING}: make .venv-<line>/.installed, make jars")
@pytest.mark.parametrize("store", STORES if LONG else ["rocksdb"])
def test_a_checkpoint_continues_on_the_next_lines(store: str, tmp_path: Path) -> None:
    with tarfile.open(GOLDEN / "format-4.tar.gz") as tar:
        tar.extractall(tmp_path / "golden", filter="data")
    output, checkpoints = tmp_path / "output", tmp_path / "checkpoints"
    arguments = [f"--input={tmp_path / 'data'}", f"--output={output}", f"--checkpoints={checkpoints}"]
    arguments += ["--types", *TYPES, "--conf", f"spark.sql.streaming.stateStore.providerClass={PROVIDERS[store]}"]
    before, part = 0, FILES / len(LINES)
    for stage, line in enumerate(LINES):
        for number in range(round(stage * part), round((stage + 1) * part)):
            add(tmp_path, number)
        assert run([str(PYTHONS[line]), "-c", "import pyspark; print(pyspark.__version__)"]).startswith(line)
        run([str(PYTHONS[line]), str(JOB), *arguments])
        now = written(output, "full_outer").total()
        assert now > before, f"Spark {line} added no rows"
        before = now
    for how in TYPES:
        assert written(output, how) == batch_answer(tmp_path, how), how
        numbers = sorted(int(path.name) for path in (output / how).iterdir())
        assert numbers == list(range(len(numbers))), "each batch ran once"
        assert all(len(list((output / how / str(number)).iterdir())) == 1 for number in numbers)


def add(folder: Path, number: int) -> None:
    """Add one file of each side to the input, with the times of modification in the order of the numbers."""
    for side in ("left", "right"):
        (source,) = folder.glob(f"golden/*/{side}/{number}.json")
        target = folder / "data" / side / source.name
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)
        os.utime(target, (1_800_000_000 + number,) * 2)
