"""The report as one HTML file, which loads nothing: it can be read without a network, years later."""

import html
import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from streamjoin._display.formats import format_time
from streamjoin._packaging.jars import all_jars, jar_path
from streamjoin._resources import read_file
from streamjoin.monitoring._files import checkpoint_query_id, local_path
from streamjoin.monitoring._series import Batches, Figures, Series, first_batch, hint_batches, without_numbers

_SCRIPTS = ("draw.js", "style.js", "holds.js", "waits.js", "series.js", "histograms.js", "view.js", "streamjoin.js")
"""What draws the pictures, in the jar: there it is a part of Spark's page."""


def write_report(batches: Batches, source: object, file: Path) -> None:
    """Write the report of batches; if their source is a checkpoint, the report also lists its files.

    Raises:
        StreamJoinError: As of :func:`render_page`.
    """
    path = str(source) if isinstance(source, str | Path) else None
    checkpoint = local_path(path) if path is not None and checkpoint_query_id(path) is not None else None
    file.write_text(render_page(batches, checkpoint), encoding="utf-8")


def render_page(queries: Batches, checkpoint: Path | None) -> str:
    """Return the report of some queries' batches; a checkpoint on this machine belongs to the only query.

    Raises:
        StreamJoinError: ``STREAMJOIN_JAR_MISSING``.
    """
    sections = [_section(at, batches) for at, batches in enumerate(queries.values())]
    files = {} if checkpoint is None else _checkpoint_files(checkpoint)
    data = [{"batches": list(map(without_key_values, batches)), "files": files} for batches in queries.values()]
    names = ", ".join(_name(batches[-1]) for batches in queries.values())
    fill = {
        "title": _escape(f"Streaming joins: {names}"),
        "sections": "\n".join(sections),
        "data": json_for_script(data),
        "script": read_scripts(),
    }
    template = read_file("monitoring", "_report.html")
    # In one pass: a value that is filled in may contain the names of others.
    return re.sub(r"\{(" + "|".join(fill) + r")\}", lambda found: str(fill[found[1]]), template)


def render_fragment(queries: Batches) -> str:
    """Return the pictures of some queries as HTML with a script that adds no name to the surrounding page.

    Raises:
        StreamJoinError: ``STREAMJOIN_JAR_MISSING``.
    """
    element = f"streamjoin-{uuid.uuid4().hex}"
    condensed = (map(without_key_values, _condense(batches)) for batches in queries.values())
    data = json_for_script([{"batches": list(batches)} for batches in condensed])
    names = "".join(
        f'<h2>{_escape(_name(batches[-1]))}</h2><div id="{element}-{at}"></div>'
        for at, batches in enumerate(queries.values())
    )
    return (
        f"{names}<script>(() => {{ {read_scripts()}\n"
        f'{data}.forEach((one, at) => StreamJoin.show(document.getElementById("{element}-" + at), one))}})();</script>'
    )


def _condense(batches: list[Figures]) -> list[Figures]:
    """Return the last batches, and points for those before: a notebook sends them to its page every few seconds."""
    series = Series(full=20, points=100)
    for batch in batches:
        series.add(batch)
    return series.batches()


def json_for_script(data: Any) -> str:
    """Return data as JSON for a ``script`` element: none of it ends the element or begins a comment."""
    return re.sub(
        "[<>&\u2028\u2029]",
        lambda found: f"\\u{ord(found[0]):04x}",
        json.dumps(data, ensure_ascii=False, separators=(",", ":")),
    )


def read_scripts() -> str:
    """Return the scripts that draw the pictures, from the jar.

    Raises:
        StreamJoinError: ``STREAMJOIN_JAR_MISSING``.
    """
    # Any line of Spark will do, and no PySpark is needed. In a clone, some may be older.
    jars = all_jars()
    jar = max(jars.values(), key=lambda one: one.stat().st_mtime) if jars else jar_path()
    with ZipFile(jar) as archive:
        folder = "org/apache/spark/sql/streamjoin/observe/publish/page/static"
        return "\n".join(archive.read(f"{folder}/{name}").decode() for name in _SCRIPTS)


def inputs(batch: Figures) -> Iterator[tuple[Figures, Figures]]:
    """Yield each input of a batch with its operator."""
    for operator in batch["operators"]:
        yield from ((operator, each) for each in operator["inputs"])


def _checkpoint_files(checkpoint: Path) -> Figures:
    """Return the files and bytes below each folder of a checkpoint, from which a running query may remove files."""
    found: Figures = {}
    for file in checkpoint.rglob("*"):
        if file.is_file():
            folder = file.relative_to(checkpoint).parts[0] if file.parent != checkpoint else file.name
            total = found.setdefault(folder, {"files": 0, "bytes": 0})
            total["files"] += 1
            total["bytes"] += file.stat(follow_symlinks=False).st_size if file.exists() else 0
    return found


def _section(at: int, batches: list[Figures]) -> str:
    first, last = batches[0], batches[-1]
    began = format_time(first["firstTimestamp" if "firstTimestamp" in first else "timestamp"])
    many = sum(map(_batch_count, batches))
    span = f"Batches {first_batch(first)} to {last['batch']}, {began} to {format_time(last['timestamp'])}."
    parts = [
        f'<section class="query" id="query-{at}" data-query="{_escape(last["id"])}" data-batches="{many}">',
        f"<h2>{_escape(_name(last))}</h2>",
        f'<p class="note">Query {_escape(last["id"])}. {span}</p>',
        f'<div class="plan" id="plan-{at}"></div>',
        _hints(batches),
        "</section>",
    ]
    return "\n".join(parts)


def _hints(batches: list[Figures]) -> str:
    """Return each hint once, in its last form, with its batches.

    Hints of an operator, or of one of its inputs, count as one if they differ only in numbers.
    """
    found: dict[tuple[int, int, str], tuple[str, int, int, int]] = {}
    for batch in batches:
        for operator in batch["operators"]:
            for at, part in enumerate((operator, *operator["inputs"])):
                for hint in part["hints"]:
                    key = (operator["operator"], at, without_numbers(hint))
                    many, first, last = hint_batches(part, hint, batch["batch"])
                    _, before, since, _ = found.get(key, ("", 0, first, 0))
                    found[key] = (hint, before + many, since, last)
    if not found:
        return "<h3>Hints</h3><p>None: nothing stood out.</p>"
    rows = "".join(
        f'<tr class="hint"><td>{operator}</td><td>{_escape(hint)}</td><td>{many}, {first} to {last}</td></tr>'
        for (operator, _, _), (hint, many, first, last) in found.items()
    )
    return f"<h3>Hints</h3><table><tr><th>operator</th><th>hint</th><th>batches</th></tr>{rows}</table>"


def without_key_values(batch: Figures) -> Figures:
    """Return figures without frequent keys, but with their counts."""
    if not any(given.get("hotKeys") for _, given in inputs(batch)):
        return batch
    copy: Figures = json.loads(json.dumps(batch))
    for _, given in inputs(copy):
        for hot in given.get("hotKeys", []):
            hot.pop("key", None)
    return copy


def _batch_count(batch: Figures) -> int:
    """Return how many batches a point of the report stands for."""
    return int(batch.get("batches", 1))


def _name(batch: Figures) -> str:
    return str(batch.get("name") or batch["id"])


def _escape(value: object) -> str:
    return html.escape(str(value))
