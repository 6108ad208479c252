"""A PostgreSQL server for tests: on a free port of this machine, as an unprivileged user, gone when the block ends."""

import csv
import io
import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from servers.ports import free_port


def binaries() -> Path | None:
    """Return the folder of PostgreSQL's programs, of the newest version that is installed."""
    versions = [folder for folder in Path("/usr/lib/postgresql").glob("*/bin") if (folder / "initdb").exists()]
    on_path = shutil.which("postgres")
    beside = [Path(on_path).resolve().parent] if on_path else []
    return max(versions, key=lambda folder: float(folder.parent.name), default=next(iter(beside), None))


class Postgres:
    """A server that runs while its ``with`` block does; it refuses to run as root, so root starts it as another."""

    def __init__(self) -> None:
        found = binaries()
        assert found is not None, "see binaries()"
        self._bin = found
        self.password = secrets.token_hex(8)

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="streamjoin-postgres-"))
        self._as: dict[str, str | int | Iterable[int]] = {}
        if os.geteuid() == 0:
            user = next(name for name in ("postgres", "nobody") if name in {each.pw_name for each in pwd.getpwall()})
            entry = pwd.getpwnam(user)
            os.chown(self._folder, entry.pw_uid, entry.pw_gid)
            self._as = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        self.port = free_port()
        secret = self._folder / "password"
        secret.write_text(self.password)
        data = str(self._folder / "data")
        init = [str(self._bin / "initdb"), "-D", data, "-U", "tester", "-A", "scram-sha-256", "--pwfile", str(secret)]
        subprocess.run([*init, "--no-sync"], check=True, capture_output=True, cwd=self._folder, **self._as)  # type: ignore[call-overload]
        settings = [
            *("-c", "listen_addresses=127.0.0.1", "-c", f"port={self.port}"),
            *("-c", "unix_socket_directories=", "-c", "fsync=off"),
        ]
        with (self._folder / "log").open("wb") as log:
            self._process: subprocess.Popen[bytes] = subprocess.Popen(  # type: ignore[call-overload]
                [str(self._bin / "postgres"), "-D", data, *settings],
                stdout=log,
                stderr=log,
                cwd=self._folder,
                **self._as,
            )
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _wait(self) -> None:
        deadline = time.monotonic() + 60
        while True:
            try:
                self.query("SELECT 1")
                return
            except subprocess.CalledProcessError:  # until the server is up
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.1)

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(timeout=60)
        shutil.rmtree(self._folder, ignore_errors=True)

    def query(self, sql: str) -> list[list[str]]:
        """Run statements, and return the rows of the last one as text; a null is an empty text."""
        command = [str(self._bin / "psql"), "--csv", "-t", "-X", "-q", "-v", "ON_ERROR_STOP=1"]
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "tester", "-d", "postgres"]
        done = subprocess.run(
            [*command, *where, "-c", sql],
            env={"PGPASSWORD": self.password, "PATH": os.environ["PATH"]},
            check=True,
            capture_output=True,
            text=True,
        )
        return list(csv.reader(io.StringIO(done.stdout)))

    def options(self, table: str) -> dict[str, str]:
        """Return the options of ``format("jdbc")`` for a table."""
        url = f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"
        driver = "org.postgresql.Driver"
        return {"url": url, "dbtable": table, "user": "tester", "password": self.password, "driver": driver}
