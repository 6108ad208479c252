"""Figures that are redrawn periodically: in a terminal until a key is pressed, in a notebook by a thread."""

import contextlib
import select
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from streamjoin._packaging.optional import import_optional
from streamjoin.monitoring._report_page import render_fragment
from streamjoin.monitoring._series import Batches, Read
from streamjoin.monitoring._terminal_table import renderable

WATCH_EXTRA = "streamjoin[watch]"


def in_terminal() -> bool:
    """Tell whether this is an interactive terminal, not a notebook."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty() and not in_notebook()


def terminal_width() -> int | None:
    """Return the width of the terminal, or None if the output goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def in_notebook() -> bool:
    """Tell whether this process is the kernel of a notebook."""
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    return shell is not None and getattr(shell, "kernel", None) is not None


def draw(read: Read, interval: float, call: str) -> None:
    """Draw the figures until ``q``, Ctrl-C or the end of the input.

    Raises:
        StreamJoinError: ``STREAMJOIN_PACKAGE_MISSING``, or what ``read`` raises.
    """
    live = import_optional("rich.live", WATCH_EXTRA, call)
    first = renderable(read())
    with (
        contextlib.suppress(KeyboardInterrupt),
        _keys() as pressed,
        live.Live(first, screen=True, auto_refresh=False) as screen,
    ):
        screen.refresh()
        while pressed(interval) != "q":
            screen.update(renderable(read()), refresh=True)


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[float], str | None]]:
    """Yield a function that waits for a key for a number of seconds, and returns the key or None."""
    try:
        import termios
        import tty
    except ImportError:  # Windows
        yield _key_of_windows
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)

    def key(seconds: float) -> str | None:
        return sys.stdin.read(1) or "q" if select.select([sys.stdin], [], [], seconds)[0] else None

    try:
        tty.setcbreak(terminal)
        yield key
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _key_of_windows(seconds: float) -> str | None:
    import msvcrt

    console: Any = msvcrt
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if console.kbhit():
            return str(console.getwch())
        time.sleep(0.05)
    return None


def as_html(queries: Batches) -> str:
    """Return the pictures of the queries as HTML with a script that adds no name to the page."""
    return render_fragment(queries)


class Refresher:
    """A thread that refreshes a display until it is stopped, or until that fails because the query has ended."""

    def __init__(self, show: Callable[[], None], interval: float) -> None:
        self._stopped = threading.Event()
        self._show, self._interval = show, interval
        threading.Thread(target=self._run, name="streamjoin watch", daemon=True).start()

    def _run(self) -> None:
        while not self._stopped.wait(self._interval):
            try:
                self._show()
            except Exception:  # the session has ended: the display keeps its last state
                return

    def stop(self) -> None:
        """Stop refreshing the display."""
        self._stopped.set()
