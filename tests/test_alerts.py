"""Prometheus accepts the rules, and they raise the expected alerts on a few minutes of metrics.

`FiguresSourceSuite` checks that a driver publishes the metrics that they use.
"""

import shutil

import pytest
from conftest import run

PROMTOOL = shutil.which("promtool")


@pytest.mark.skipif(PROMTOOL is None, reason="there is no promtool (Debian's package `prometheus`)")
@pytest.mark.parametrize(("what", "file"), [("check", "docs/monitoring"), ("test", "tests/prometheus")])
def test_the_rules(what: str, file: str) -> None:
    assert PROMTOOL is not None
    assert "SUCCESS" in run([PROMTOOL, what, "rules", f"{file}/alerts.yml"])
