"""Rehearses the release of `dist/` without the uploads: signatures, Maven Central's bundle, the contents.

Uploads to Maven Central and PyPI are permanent, so a fault must be found earlier. The key is discarded.
"""

import fnmatch
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zipfile import ZipFile

from publisher import PUBLISHER
from sign import to_sign

ROOT = Path(__file__).resolve().parents[2]
VERSION = (ROOT / "VERSION").read_text().strip()
POM = "{http://maven.apache.org/POM/4.0.0}"
# The files that Maven Central requires for each artifact, and the elements of its description.
KINDS = (".jar", "-sources.jar", "-javadoc.jar", ".pom")
REQUIRED = ("groupId", "artifactId", "version", "name", "description", "url", "licenses", "developers", "scm")
# The contents of Python's source distribution: the sources of the package, and those of the jar.
SOURCES = (
    "scala/core/src/main",
    "scala/spark/src/main",
    "scala/published",
    "project",
    "build.sbt",
    "VERSION",
    "python/src",
)


def rehearse(dist: Path, lines: list[str]) -> None:
    """Sign a copy of the files that are published for these Spark lines, bundle it, and check everything."""
    check_sums(dist)
    with tempfile.TemporaryDirectory(prefix="streamjoin-rehearsal-") as folder, key(Path(folder)) as environment:
        copy = Path(folder) / "dist"
        shutil.copytree(dist, copy)
        make("sign", copy, environment)
        for file in [*to_sign(copy), copy / "SHA256SUMS"]:
            run(["gpg", "--batch", "--verify", f"{file}.asc", str(file)], environment)
        print(f"signed and verified with {environment['KEY']}, which is discarded", flush=True)
        make("bundle", copy, environment)
        problems = [*incomplete(copy / "maven", lines), *not_as_bundled(copy / "maven", bundle())]
    problems += [each for jar in dist.rglob("*-javadoc.jar") for each in without_license(jar)]
    problems += [each for sdist in dist.glob("*.tar.gz") for each in without_source(sdist)]
    problems += invalid_bill(next(dist.glob("*.cdx.json")).read_text())
    if problems:
        sys.exit("\n".join(problems))
    print("Maven Central's bundle, the licenses, the sources and the bill of materials are complete", flush=True)


def check_sums(dist: Path) -> None:
    """Reject a file that has changed since it was built."""
    for row in (dist / "SHA256SUMS").read_text().splitlines():
        digest, name = row.split()
        assert hashlib.sha256((dist / name).read_bytes()).hexdigest() == digest, name


@contextmanager
def key(folder: Path) -> Iterator[dict[str, str]]:
    """Create a key with a passphrase in its own keyring; yield the environment in which gpg uses it."""
    home = folder / "gnupg"
    home.mkdir(mode=0o700)
    name = "a rehearsal <rehearsal@example.invalid>"
    environment = os.environ | {"GNUPGHOME": str(home), "PGP_PASSPHRASE": "rehearsal", "KEY": name}
    make_key = ["gpg", "--batch", "--pinentry-mode", "loopback", "--passphrase", "rehearsal"]
    run([*make_key, "--quick-generate-key", name, "ed25519", "sign", "1d"], environment)
    try:
        yield environment
    finally:
        run(["gpgconf", "--kill", "all"], environment)


def incomplete(maven: Path, lines: list[str]) -> list[str]:
    """Return what Maven Central would reject: missing files, and wrong names in a POM."""
    problems = []
    for line in lines:
        name = f"streamjoin-spark{line}_2.13"
        folder = maven.joinpath(*PUBLISHER["group"].split("."), name, VERSION)
        for kind in KINDS:
            file = folder / f"{name}-{VERSION}{kind}"
            for needed in (file, *(Path(f"{file}{suffix}") for suffix in (".asc", ".md5", ".sha1"))):
                if not needed.exists():
                    problems.append(f"missing: {needed.relative_to(maven)}")
            for sums in (each for each in ("md5", "sha1") if file.exists() and Path(f"{file}.{each}").exists()):
                if Path(f"{file}.{sums}").read_text().split()[0] != hashlib.new(sums, file.read_bytes()).hexdigest():
                    problems.append(f"not the sum of the file: {file.name}.{sums}")
        pom = folder / f"{name}-{VERSION}.pom"
        if pom.exists():
            found = ElementTree.parse(pom).getroot()
            problems += [f"{pom.name} has no {each}" for each in REQUIRED if found.find(POM + each) is None]
            if found.findtext(f"{POM}groupId") != PUBLISHER["group"]:
                problems.append(f"{pom.name} is of {found.findtext(f'{POM}groupId')}, not of {PUBLISHER['group']}")
    return problems


def not_as_bundled(maven: Path, archive: Path) -> list[str]:
    """Return the files that are only in the repository or only in its bundle."""
    with ZipFile(archive) as bundled:
        names = {name for name in bundled.namelist() if not name.endswith("/")}
    files = {str(file.relative_to(maven)) for file in maven.rglob("*") if file.is_file()}
    return [f"only in one of repository and bundle: {name}" for name in sorted(names ^ files)]


def without_license(jar: Path) -> list[str]:
    """Return the Scaladoc files in a documentation jar whose license is missing from its notice."""
    with ZipFile(jar) as archive:
        names = set(archive.namelist())
        notice = archive.read("META-INF/NOTICE").decode()
    patterns = [each for line in re.findall(r"^(\S.*)$", notice, re.MULTILINE) for each in line.split(", ")]
    licenses = set(re.findall(r"META-INF/[\w.-]*\w", notice))
    problems = [f"{jar.name} has no {name}" for name in licenses - names]
    for name in sorted(names):
        if name.endswith((".html", "/")) or name.startswith("META-INF/"):
            continue
        if not any(fnmatch.fnmatch(Path(name).name, pattern) for pattern in patterns):
            problems.append(f"{jar.name} has {name}, whose license META-INF/NOTICE does not name")
    return problems


def without_source(sdist: Path) -> list[str]:
    """Return the sources that a source distribution lacks."""
    with tarfile.open(sdist) as archive:
        names = {member.name.split("/", 1)[1]: member.size for member in archive if member.isfile()}
    tracked = run(["git", "ls-files", *SOURCES]).splitlines()
    assert len(tracked) > 200
    sizes = {name: (ROOT / name).stat().st_size for name in tracked}
    return [f"{sdist.name} has no {name}" for name in tracked if names.get(name.removeprefix("python/")) != sizes[name]]


def invalid_bill(text: str) -> list[str]:
    """Return the errors of a bill of materials according to CycloneDX's schema."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    return [] if error is None else [f"the bill of materials: {str(error).splitlines()[0]}"]


def bundle() -> Path:
    """Return what `make bundle` wrote."""
    return ROOT / "target" / "sona-bundle" / "bundle.zip"


def make(target: str, dist: Path, environment: dict[str, str]) -> None:
    """Run a make target with this folder instead of dist/."""
    run(["make", "--no-print-directory", target, f"DIST={dist}"], environment)


def run(command: list[str], environment: dict[str, str] | None = None) -> str:
    """Run a command in the project; return its output, or exit with all of it."""
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
    return done.stdout
