"""A PostgreSQL server for tests."""

import csv
import io
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from servers.database import Database


def binaries() -> Path | None:
    """Return the folder of PostgreSQL's programs, of the newest version that is installed."""
    versions = [folder for folder in Path("/usr/lib/postgresql").glob("*/bin") if (folder / "initdb").exists()]
    on_path = shutil.which("postgres")
    others = [Path(on_path).resolve().parent] if on_path else []
    return max(versions, key=lambda folder: float(folder.parent.name), default=next(iter(others), None))


class Postgres(Database):
    """A server that runs while its ``with`` block does; it refuses to run as root."""

    scheme, database, driver, user = "postgresql", "postgres", "org.postgresql.Driver", "postgres"

    def _start(self, log: int) -> subprocess.Popen[bytes]:
        found = binaries()
        assert found is not None, "see binaries()"
        self._bin = found
        user: dict[str, str | int | Iterable[int]] = {}
        if self._user:
            user = {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}
        secret = self._folder / "password"
        secret.write_text(self.password)
        data = str(self._folder / "data")
        init = [str(self._bin / "initdb"), "-D", data, "-U", "tester", "-A", "scram-sha-256", "--pwfile", str(secret)]
        subprocess.run([*init, "--no-sync"], check=True, capture_output=True, cwd=self._folder, **user)  # type: ignore[call-overload]
        address = ["-c", "listen_addresses=127.0.0.1", "-c", f"port={self.port}", "-c", "unix_socket_directories="]
        command = [str(self._bin / "postgres"), "-D", data, *address, "-c", "fsync=off"]
        server: subprocess.Popen[bytes] = subprocess.Popen(  # type: ignore[call-overload]
            command, stdout=log, stderr=log, cwd=self._folder, **user
        )
        return server

    def _set_up(self) -> None:
        self.query("SELECT 1")

    def query(self, sql: str) -> list[list[str]]:
        """Run statements, and return the rows of the last one as text; a null is an empty text."""
        command = [str(self._bin / "psql"), "--csv", "-t", "-X", "-q", "-v", "ON_ERROR_STOP=1"]
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "tester", "-d", self.database]
        environment = {"PGPASSWORD": self.password, "PATH": os.environ["PATH"]}
        done = subprocess.run(
            [*command, *where, "-c", sql], env=environment, check=True, capture_output=True, text=True
        )
        return list(csv.reader(io.StringIO(done.stdout)))
