"""The publisher of streamjoin, from `project/publisher`. The build reads the same file."""

from pathlib import Path


def publisher() -> dict[str, str]:
    """Return the names: organization, group, source, documentation."""
    rows = (Path(__file__).resolve().parents[1] / "publisher").read_text().splitlines()
    return dict(row.split(maxsplit=1) for row in rows if not row.startswith("#"))


PUBLISHER = publisher()
