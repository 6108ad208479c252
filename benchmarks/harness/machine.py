"""The machine and the versions of a run."""

import hashlib
import os
import platform
from pathlib import Path

from streamjoin._packaging.jars import jar_path
from streamjoin._packaging.version import __version__


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


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or "unknown")
