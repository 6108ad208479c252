"""Generates the page of errors from the messages: ``python docs/error_page.py`` writes ``docs/errors.md``."""

import json
import re
import textwrap
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CONDITIONS = ROOT / "python" / "src" / "streamjoin" / "error-conditions.json"
FUNCTIONS = CONDITIONS.with_name("functions.json")
PAGE = ROOT / "docs" / "errors.md"

HEAD = """\
What does an error mean, and what do I write instead? Its message says both. Every error also has a name, which starts
with `STREAMJOIN_`, and a SQLSTATE. If an error has several causes, the name of the cause follows after a dot:

```python
from pyspark.errors import AnalysisException

on = F.expr("id = order_id")
try:
    sj.asof_join(orders, deliveries, on, direction="forward")
except AnalysisException as error:
    print(error.getCondition(), error.getSqlState())
closest = sj.asof_join(orders, deliveries, on, direction="forward", tolerance="10 minutes")
```

```text output
STREAMJOIN_TEMPORAL.NO_TOLERANCE 42000
```

Errors of the JVM are Spark's `AnalysisException`, or `SparkRuntimeException` for damaged files and limits. A query that
fails later raises a `StreamingQueryException` with the condition `STREAM_FAILED`. The error is its cause. Errors of the
Python package are `streamjoin.StreamJoinError`, a `PySparkException`. All have `getCondition()`, `getSqlState()` and
`getMessageParameters()`. To handle an error whatever its cause is, compare the part before the dot.

In the messages below, a name such as `<column>` stands for a value. The last sentences of a message say what to do."""


@cache
def _read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def plain(text: str) -> str:
    """Return a message as Markdown: its parameters are code, and all other characters are escaped."""
    parts = re.split(r"(`[^`]*`|<[\w.]+>)", text)
    functions = {f"<sj.{id}>": function.get("python") for id, function in _read(FUNCTIONS).items()}
    parts[::2] = [re.sub(r"([\\*_\[\]<>#|])", r"\\\1", part) for part in parts[::2]]
    return "".join(f"`{functions.get(part, part)}`" if part.startswith("<") else part for part in parts)


def section(name: str, condition: dict[str, Any]) -> str:
    """Return the section of the page for one condition."""
    # Breaking at a hyphen or within a word would change what readers copy.
    wrapper = textwrap.TextWrapper(120, break_long_words=False, break_on_hyphens=False)
    lines = [f"## {name}", "", f"SQLSTATE {condition['sqlState']}", ""]
    for line in condition["message"]:
        lines += [*wrapper.wrap(plain(line)), ""]
    causes = condition.get("subClass", {})
    if causes:
        lines += ["| cause | problem | what to do |", "|---|---|---|"]
        for cause, text in causes.items():
            problem, *rest = map(plain, text["message"])
            lines.append(f"| `{cause}` | {problem} | {' '.join(rest)} |")
    return "\n".join(lines).rstrip()


def page() -> str:
    """Return the page."""
    conditions = _read(CONDITIONS)
    sections = [section(name, condition) for name, condition in sorted(conditions.items())]
    origin = "<!-- Written by docs/error_page.py from error-conditions.json. -->"
    return "\n\n".join(["# Errors", HEAD, *sections, origin]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
