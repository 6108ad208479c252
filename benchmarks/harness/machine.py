"""Where, when and with what a run was."""

import hashlib
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from streamjoin._packaging.jars import jar_path
from streamjoin._packaging.version import __version__

# What the sides of a table have in common: the machine with its kernel, and the jar.
SAME = ("CPU", "memory", "OS", "streamjoin")
# A run uses the Spark of this Python, whatever else the machine has.
NOT_INHERITED = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS")


def inherited() -> dict[str, str]:
    """Return the environment variables for the process of a run."""
    return {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}


def environment(program: str, folders: Sequence[str]) -> dict[str, str]:
    """Return when and where a run was, the command, and the version of the project.

    Args:
        program: how it was started, without its arguments.
        folders: the options whose values are folders, which only describe the machine.
    """
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return {"date": date, "command": command_line(program, folders)} | machine() | project()


def require_same(earlier: Mapping[str, str]) -> None:
    """End the benchmark if the environment of an earlier run has another machine, kernel or jar.

    Sides of one table would otherwise compare machines, not joins.
    """
    now = machine() | project()
    changed = [f"{name}: {earlier.get(name)}, now {now[name]}" for name in SAME if earlier.get(name) != now[name]]
    if changed:
        sys.exit(
            "--resume continues a command, and its tables compare sides of one machine, kernel and jar. These are "
            f"different: {'; '.join(changed)}. Run it without --resume"
        )


def command_line(program: str, folders: Sequence[str]) -> str:
    """Return the command without these options."""
    words = sys.argv[1:]
    kept = [
        word
        for at, word in enumerate(words)
        if not word.startswith(tuple(folders)) and (at == 0 or words[at - 1] not in folders)
    ]
    return " ".join([program, *kept])


def machine() -> dict[str, str]:
    """Return the machine's hardware and system, without its name."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "CPU": f"{_cpu()}, {os.cpu_count()} cores",
        "memory": f"{memory:.0f} GiB",
        "OS": f"{platform.system()} {platform.release()}, {platform.machine()}",
    }


def project() -> dict[str, str]:
    """Return the version of the project, and that of the jar, which may be of another build."""
    digest = hashlib.sha256(jar_path().read_bytes()).hexdigest()
    return {"streamjoin": f"{__version__}, jar {digest[:8]}"}


def described() -> list[str]:
    """Return the machine and the version as the lines of a Markdown list."""
    return [f"- {name}: {value}" for name, value in (machine() | project()).items()]


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or "unknown")
