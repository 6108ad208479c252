"""JDBC drivers of the databases that tests and benchmarks run, fetched by Maven the first time."""

import subprocess
from pathlib import Path

POSTGRES = "org.postgresql:postgresql:42.7.8"
MARIADB = "org.mariadb.jdbc:mariadb-java-client:3.5.3"
H2 = "com.h2database:h2:2.3.232"


def driver_jar(tools: Path, artifact: str) -> Path:
    """Return the jar of an artifact."""
    _, name, version = artifact.split(":")
    jar = tools / "jdbc" / f"{name}-{version}.jar"
    if not jar.exists():
        plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
        command = ["mvn", "-q", "-B", f"-Dmaven.repo.local={tools / 'm2'}", plugin]
        subprocess.run([*command, f"-Dartifact={artifact}", f"-DoutputDirectory={jar.parent}"], check=True)
    return jar
