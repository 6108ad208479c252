"""A MariaDB server for tests."""

import shutil
import subprocess

from servers.database import Database


def is_installed() -> bool:
    """Return whether this machine has the server's programs."""
    return all(shutil.which(program) for program in ("mariadbd", "mariadb-install-db", "mariadb"))


class MariaDb(Database):
    """A server that runs while its ``with`` block does."""

    scheme, database, driver, user = "mariadb", "shop", "org.mariadb.jdbc.Driver", "mysql"

    def _start(self, log: int) -> subprocess.Popen[bytes]:
        assert is_installed(), "see is_installed()"
        user = [f"--user={self._user.pw_name}"] if self._user else []
        data = f"--datadir={self._folder / 'data'}"
        install = ["mariadb-install-db", "--no-defaults", *user, data, "--auth-root-authentication-method=normal"]
        subprocess.run([*install, "--skip-test-db"], check=True, capture_output=True)
        self._socket = f"--socket={self._folder / 'socket'}"
        where = [f"--port={self.port}", "--bind-address=127.0.0.1", self._socket]
        files = [data, f"--pid-file={self._folder / 'pid'}", "--innodb-flush-log-at-trx-commit=0"]
        return subprocess.Popen(["mariadbd", "--no-defaults", *user, *where, *files], stdout=log, stderr=log)

    def _set_up(self) -> None:
        user = "tester@'127.0.0.1'"
        created = f"CREATE USER {user} IDENTIFIED BY '{self.password}'; GRANT ALL ON *.* TO {user}"
        self._run(f"CREATE DATABASE shop; {created}")

    def _run(self, sql: str, *database: str) -> str:
        command = ["mariadb", "--no-defaults", "-u", "root", self._socket, "-N", "-B", *database, "-e", sql]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def query(self, sql: str) -> list[list[str]]:
        """Run statements, and return the rows of those that have some as text."""
        return [line.split("\t") for line in self._run(sql, self.database).splitlines()]
