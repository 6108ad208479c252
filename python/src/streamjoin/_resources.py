"""The files of this package, which Spark may have sent to a driver as a zip file (``--py-files``)."""

from importlib.resources import files


def read_file(*path: str) -> str:
    """Return the text of a file, named by its path in the package."""
    return files("streamjoin").joinpath(*path).read_text(encoding="utf-8")
