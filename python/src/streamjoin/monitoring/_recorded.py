"""``python -m streamjoin evolution``: what a checkpoint records of its joins, without a session and without PySpark."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from streamjoin.errors import StreamJoinError

# Other fields of a record than the properties that a change is compared with.
_OTHERS = {
    "version",
    "kind",
    "partitions",
    "rewritten",
    "changed",
    "added",
    "removed",
    "takenOver",
    "place",
    "from",
    "bounds_micros",
    "time_columns",
    "time_sides",
    "time_windows",
    "time_names",
    "carried_values",
    "left_condition",
    "right_condition",
    "pair_condition",
    "routing",
    "equalities",
    "left_rows",
    "right_rows",
    "rows",
}


def recorded(checkpoint: Path) -> list[str]:
    """Return what a checkpoint in a local folder records of its joins, in lines.

    Raises:
        StreamJoinError: ``STREAMJOIN_NO_STATE``.
    """
    joins = [_read(file) for file in _numbered(checkpoint / "stream-joins")]
    if not joins:
        raise StreamJoinError("STREAMJOIN_NO_STATE.NO_OPERATOR", checkpoint=str(checkpoint))
    committed = [int(file.name) for file in _numbered(checkpoint / "commits")]
    last = f"batch {committed[-1]} is the last committed one" if committed else "no batch has been committed"
    gaps = _gaps(checkpoint)
    lines = [last]
    for number, join in enumerate(joins, 1):
        changed: dict[str, Any] = join.get("changed", join)
        is_attempt = changed is not join and _is_attempted(changed, committed)
        lines += ["", f"join {number}: {join['kind']}, {_partitions(join, committed)}{_lifetime(join, committed)}"]
        lines += _properties(join if is_attempt else changed)
        lines += _attempt(join, changed if is_attempt else None, committed)
        if number in gaps:
            lines.append(f"  complete from {gaps[number]}")
    return lines


def _numbered(folder: Path) -> list[Path]:
    found = [file for file in folder.iterdir() if file.name.isdigit()] if folder.is_dir() else []
    return sorted(found, key=lambda file: int(file.name))


def _read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def _is_attempted(begun: dict[str, Any], committed: list[int]) -> bool:
    """Return whether the first batch of what a join has begun with it has not been committed."""
    return not committed or bool(begun["from"] > committed[-1])


def _partitions(join: dict[str, Any], committed: list[int]) -> str:
    """Return the number of partitions after the last committed batch."""
    written = [each for each in join.get("rewritten", ()) if not _is_attempted(each, committed)]
    number = written[-1]["partitions"] if written else join.get("partitions")
    if number == 0:
        return "no state yet"
    return f"{number} partition{'' if number == 1 else 's'}"


def _attempt(join: dict[str, Any], changed: dict[str, Any] | None, committed: list[int]) -> list[str]:
    """Return what a batch that has not been committed has begun: another description, another number of partitions."""
    written = [each for each in join.get("rewritten", ()) if _is_attempted(each, committed)]
    properties = [] if changed is None else _properties(changed, "    ")
    properties += [f"    partitions: {each['partitions']}" for each in written[-1:]]
    begun = [*written[-1:], *([] if changed is None else [changed])]
    return [f"  batch {begun[-1]['from']} has been attempted with:", *properties] if begun else []


def _lifetime(join: dict[str, Any], committed: list[int]) -> str:
    """Return since when a running query has had the join, and until when, if not always."""
    found = ""
    for name in ("added", "removed"):
        if (batch := join.get(name)) is not None:
            is_attempt = not committed or batch > committed[-1]
            found += f", {name} with batch {batch}" + (", which has not been committed" if is_attempt else "")
    return found


def _properties(join: dict[str, Any], indent: str = "  ") -> list[str]:
    return [f"{indent}{name}: {value}" for name, value in sorted(join.items()) if name not in _OTHERS]


def _gaps(checkpoint: Path) -> dict[int, str]:
    """Return the time from which the results of a join are complete, by its number, if they may lack rows."""
    found: dict[int, int] = {}
    for file in _numbered(checkpoint / "keyed-watermarks")[-1:]:
        for gap in _read(file).get("gaps", ()):
            if "until" in gap:  # other gaps count since a later change
                continue
            number = gap["operator"] + 1
            found[number] = max(found.get(number, gap["completeFromMicros"]), gap["completeFromMicros"])
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return {
        number: (epoch + timedelta(microseconds=micros)).isoformat().replace("+00:00", "Z")
        for number, micros in found.items()
    }
