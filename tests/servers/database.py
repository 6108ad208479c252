"""A database server for tests: on a free port of this machine, as an unprivileged user, gone when the block ends."""

import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Self

from servers.ports import free_port


class Database(ABC):
    """A server that runs while its ``with`` block does; where root starts it, it runs as another user."""

    scheme: ClassVar[str]
    database: ClassVar[str]
    driver: ClassVar[str]
    user: ClassVar[str]

    def __init__(self) -> None:
        self.password = secrets.token_hex(8)

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix=f"streamjoin-{self.scheme}-"))
        self._user: pwd.struct_passwd | None = None
        if os.geteuid() == 0:
            users = {each.pw_name: each for each in pwd.getpwall()}
            self._user = next(users[name] for name in (self.user, "nobody") if name in users)
            os.chown(self._folder, self._user.pw_uid, self._user.pw_gid)
        self.port = free_port()
        with (self._folder / "log").open("wb") as log:
            self._process = self._start(log.fileno())
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
                self._set_up()
                return
            except subprocess.CalledProcessError:  # until the server is up
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.1)

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(timeout=60)
        shutil.rmtree(self._folder, ignore_errors=True)

    @abstractmethod
    def _start(self, log: int) -> subprocess.Popen[bytes]:
        """Make a new database, and start its server."""

    @abstractmethod
    def _set_up(self) -> None:
        """Prepare the database; until the server is up, this fails."""

    @abstractmethod
    def query(self, sql: str) -> list[list[str]]:
        """Run statements, and return their rows as text."""

    def options(self, table: str) -> dict[str, str]:
        """Return the options of ``format("jdbc")`` for a table."""
        url = f"jdbc:{self.scheme}://127.0.0.1:{self.port}/{self.database}"
        return {"url": url, "dbtable": table, "user": "tester", "password": self.password, "driver": self.driver}
