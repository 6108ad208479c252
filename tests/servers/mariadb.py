"""A MariaDB server for tests: on a free port of this machine, as an unprivileged user, gone when the block ends."""

import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

from servers.ports import free_port


def is_installed() -> bool:
    """Return whether this machine has the server's programs."""
    return all(shutil.which(program) for program in ("mariadbd", "mariadb-install-db", "mariadb"))


class MariaDb:
    """A server that runs while its ``with`` block does; where root starts it, it runs as another user."""

    def __init__(self) -> None:
        assert is_installed(), "see is_installed()"
        self.password = secrets.token_hex(8)

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="streamjoin-mariadb-"))
        user: list[str] = []
        if os.geteuid() == 0:
            name = next(name for name in ("mysql", "nobody") if name in {each.pw_name for each in pwd.getpwall()})
            entry = pwd.getpwnam(name)
            os.chown(self._folder, entry.pw_uid, entry.pw_gid)
            user = [f"--user={name}"]
        data = f"--datadir={self._folder / 'data'}"
        install = ["mariadb-install-db", "--no-defaults", *user, data, "--auth-root-authentication-method=normal"]
        subprocess.run([*install, "--skip-test-db"], check=True, capture_output=True)
        self.port = free_port()
        self._socket = f"--socket={self._folder / 'socket'}"
        where = [f"--port={self.port}", "--bind-address=127.0.0.1", self._socket]
        files = [data, f"--pid-file={self._folder / 'pid'}", "--innodb-flush-log-at-trx-commit=0"]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                ["mariadbd", "--no-defaults", *user, *where, *files], stdout=log, stderr=log
            )
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _wait(self) -> None:
        grant = (
            f"CREATE USER tester@'127.0.0.1' IDENTIFIED BY '{self.password}'; GRANT ALL ON *.* TO tester@'127.0.0.1'"
        )
        deadline = time.monotonic() + 60
        while True:
            try:
                self._run(f"CREATE DATABASE shop; {grant}")
                return
            except subprocess.CalledProcessError:  # until the server is up
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.1)

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(timeout=60)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, sql: str, *database: str) -> str:
        command = ["mariadb", "--no-defaults", "-u", "root", self._socket, "-N", "-B", *database, "-e", sql]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def query(self, sql: str) -> list[list[str]]:
        """Run statements, and return the rows of those that have some as text."""
        return [line.split("\t") for line in self._run(sql, "shop").splitlines()]

    def options(self, table: str) -> dict[str, str]:
        """Return the options of ``format("jdbc")`` for a table."""
        url = f"jdbc:mariadb://127.0.0.1:{self.port}/shop"
        driver = "org.mariadb.jdbc.Driver"
        return {"url": url, "dbtable": table, "user": "tester", "password": self.password, "driver": driver}
