"""The lock of all jars that Maven and sbt fetch: ``python project/locks/jars.py check``, or ``write``.

Versions are pinned in the build, and what a published version needs never changes; the lock has the SHA-256 of each
jar. Coursier and Maven keep what they fetch under ``.tools``, by its path in a repository.
"""

import hashlib
import sys
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "project" / "locks" / "jars.sha256"


def fetched() -> dict[str, str]:
    """Return the jars under .tools: path in the repository, hash."""
    found = {}
    for jar in (ROOT / ".tools").glob("*/**/*.jar"):
        parts = jar.relative_to(ROOT / ".tools").parts
        # coursier/cache/https/<host>/maven2/<path>, m2/<path>. Other folders have copies.
        if parts[0] in ("coursier", "m2"):
            path = "/".join(parts[parts.index("maven2") + 1 if "maven2" in parts else 1 :])
            found[path] = hashlib.sha256(jar.read_bytes()).hexdigest()
    return found


def locked() -> dict[str, str]:
    """Return the jars of the lock."""
    pairs = (line.split() for line in LOCK.read_text().splitlines())
    return {path: digest for digest, path in pairs}


def check() -> None:
    """Reject a jar that is not in the lock, or is another there."""
    lock = locked()
    jars = fetched()
    assert jars, "nothing was fetched into .tools"
    unknown = sorted(path for path in jars if path not in lock)
    other = sorted(path for path, digest in jars.items() if lock.get(path, digest) != digest)
    if other:
        sys.exit("These jars are not those of project/locks/jars.sha256:\n  " + "\n  ".join(other))
    if unknown:
        sys.exit("Not in project/locks/jars.sha256 (`make locks` adds them):\n  " + "\n  ".join(unknown))


def write() -> None:
    """Take what was fetched; keep artifacts of which no version was."""
    jars = fetched()
    artifacts = {artifact(path) for path in jars}
    kept = {path: digest for path, digest in locked().items() if artifact(path) not in artifacts}
    LOCK.write_text("".join(f"{digest}  {path}\n" for path, digest in sorted({**kept, **jars}.items())))


def artifact(path: str) -> str:
    """Return the path without version and file."""
    return str(PurePosixPath(path).parent.parent)


if __name__ == "__main__":
    {"check": check, "write": write}[sys.argv[1]]()
