"""A browser without a window, and pages after their scripts have run."""

import shutil
import subprocess
from pathlib import Path

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium (Debian's package `chromium`)")


def document(address: str, profile: Path, *options: str, milliseconds: int = 10_000) -> str:
    """Return the document of a page after its scripts have run for a time on the page's own clock."""
    assert CHROMIUM is not None
    fixed = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server"]
    fixed += [f"--user-data-dir={profile}", f"--virtual-time-budget={milliseconds}"]
    command = [CHROMIUM, *fixed, *options, "--dump-dom", address]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
