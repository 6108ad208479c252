"""Processes that tests kill: each in a group of its own, together with its JVM."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from conftest import PATIENCE


class Job:
    """A command that runs repeatedly, and the file with the output of its processes."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.command, self.log, self.environment = command, log, environment

    def start(self, *more: str) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [*self.command, *more], env=self.environment, stdout=log, stderr=log, start_new_session=True
            )

    def said(self) -> str:
        """Return the end of the log."""
        return self.log.read_text()[-5000:]

    def finish(self, *more: str) -> None:
        """Run a process until it ends."""
        process = self.start(*more)
        try:
            assert process.wait(timeout=PATIENCE) == 0, self.said()
        finally:
            kill_group(process)

    def kill(self, when: Callable[[], bool], *more: str, delay: float = 0) -> bool:
        """Start a process, and kill it ``delay`` seconds after a condition holds; return whether it still ran."""
        process = self.start(*more)
        try:
            deadline = time.monotonic() + PATIENCE
            while not when():
                assert (process.poll() is None or when()) and time.monotonic() < deadline, self.said()
                time.sleep(0.02)
            time.sleep(delay)
            return process.poll() is None
        finally:
            kill_group(process)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that was started in its own session, and its JVM, if they still run."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
