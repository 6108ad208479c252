"""The wheel alone: what is in it, and README.md with it, from the installation to a job under `spark-submit`."""

import json
import re
import sys
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

import pyspark
import pytest
from conftest import LINE, LONG, ROOT, run
from rehearse import without_source

import streamjoin as sj


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), "python"]
    run(build)
    (found,) = folder.iterdir()
    return found


def test_what_is_in_the_wheel(wheel: Path) -> None:
    assert wheel.name == f"streamjoin-{sj.__version__}-py3-none-any.whl"
    with ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(f"streamjoin-{sj.__version__}.dist-info/METADATA").decode().splitlines()
    jars = {f"streamjoin/jars/{jar.name}" for jar in (ROOT / "python/src/streamjoin/jars").iterdir()}
    assert {name for name in names if name.endswith(".jar")} == jars
    assert f"streamjoin/jars/streamjoin-spark{LINE}_2.13-{sj.__version__}.jar" in jars
    assert "Requires-Dist: pyspark<4.4,>=4.1.0; extra == 'spark'" in metadata
    assert {"streamjoin/py.typed", "streamjoin/__init__.pyi", "streamjoin/joins/__init__.py"} <= names
    assert {"streamjoin/monitoring/__init__.pyi", "streamjoin/monitoring/_report.html"} <= names
    assert f"Version: {(ROOT / 'VERSION').read_text().strip()}" in metadata
    needs = [line for line in metadata if line.startswith("Requires-Dist: ")]
    assert needs, "the extras are there"
    assert all("extra == " in line for line in needs), "clusters bring their own Spark"


# Commands of README.md that are replaced: the repository is copied, targets of make are looked up,
# and the wheel is the one of this module. A new environment gets links to the PySpark of this one,
# because unpacking it takes longest.
STAND_INS = """
set -e
git() { mkdir streamjoin && cp "$ROOT/Makefile" streamjoin; }
make() {
  grep -q "^$1:" Makefile || { echo "no target $1"; return 1; }
  [ "$1" != wheel ] || { mkdir dist && cp "$WHEEL" dist; }
}
python3() {
  "$PYTHON" "$@"
  [ -z "$LENT" ] || ln -s "$LENT"/pyspark* "$LENT"/py4j* "$3"/lib/python*/site-packages
  [ -z "$LENT" ] || ln -s "$(dirname "$PYTHON")"/*spark* "$3"/bin
}
"""


class Block(NamedTuple):
    """A block of README.md: its language, its text, and its output if the page shows it."""

    language: str
    text: str
    output: str | None


def readme() -> list[Block]:
    found = list[Block]()
    for language, text in re.findall(r"^```([a-z][^\n`]*)\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S):
        if language == "text output":
            found[-1] = found[-1]._replace(output=text)
        else:
            found.append(Block(language, text, None))
    return found


def test_the_readme_from_its_first_to_its_last_command(wheel: Path, tmp_path: Path) -> None:
    """All blocks run in one shell, from an empty folder, and print what the page shows."""
    assert {block.language for block in readme()} == {"bash", "python"}
    script = STAND_INS
    for number, block in enumerate(readme()):
        if block.language == "python":
            script += f"cat > first.py <<'PYTHON'\n{block.text}PYTHON\n"
        elif block.text.startswith("make demo"):
            script += f"cd ~/streamjoin\n{block.text}"
        else:
            script += f"echo '=== {number}'\n{block.text}"
    script += "echo '=== end'\npython -m pip list --format=json\npython -m streamjoin jar\n"
    # The jobs write the figures of their joins there, if these run on streamjoin.
    (tmp_path / "conf").mkdir()
    # `make wheel` builds for all lines. The wheel of this test may have the jar of one line only.
    (tmp_path / "constraints.txt").write_text(f"pyspark == {LINE}.*\n")
    (tmp_path / "conf" / "spark-defaults.conf").write_text(f"spark.streamjoin.history {tmp_path}/history\n")
    environment = {
        "HOME": str(tmp_path),
        "ROOT": str(ROOT),
        "WHEEL": str(wheel),
        "PYTHON": sys.executable,
        "LENT": "" if LONG else str(Path(pyspark.__file__).parents[1]),
        "SPARK_CONF_DIR": str(tmp_path / "conf"),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_CONSTRAINT": str(tmp_path / "constraints.txt"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    printed = run(["bash", "-c", f"cd ~\n{script}"], environment)
    parts = dict(part.split("\n", 1) for part in printed.split("=== ")[1:])
    for number, block in enumerate(readme()):
        if block.output:
            assert parts[str(number)] == block.output + "\n"
    # The job that is submitted is the same program.
    (shown,) = [block.output for block in readme() if block.output]
    assert printed.count(shown) == 2
    packages, jar = parts["end"].strip().splitlines()
    assert {"streamjoin", "pyspark"} <= {package["name"] for package in json.loads(packages)}
    assert "duckdb" not in packages, "users do not need what tests need"
    assert jar.startswith(str(tmp_path / "try-streamjoin"))
    assert len(list((tmp_path / "history").iterdir())) == 2


def test_the_source_distribution_has_the_scala_source(tmp_path: Path) -> None:
    run([sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", str(tmp_path), "python"])
    (sdist,) = tmp_path.iterdir()
    assert without_source(sdist) == []


def test_the_wheel_has_the_licence(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/licenses/LICENSE"))
        assert archive.read(name) == (ROOT / "LICENSE").read_bytes()
