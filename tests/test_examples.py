"""Every numbered program of `examples`, as a reader runs it: it ends by itself and prints what it is there to show."""

import sys
from pathlib import Path

import pytest
from conftest import ROOT, run

EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))
