"""Files on this machine, and on the file systems that only Spark reads.

Only the folders of other file systems need PySpark: an active session reads them.
"""

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from streamjoin._spark.extension import is_connect
from streamjoin.errors import StreamJoinError

_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:")
_LOCAL = re.compile(r"file:(?://[^/]*)?")


def local_path(location: str) -> Path | None:
    """Return the path on this machine, or None for a path of another file system."""
    # As in Hadoop, `#`, `?` and `%` have no meaning in a path.
    if local := _LOCAL.match(location):
        return Path(location[local.end() :])
    return None if _SCHEME.match(location) else Path(location)


def is_url(location: str) -> bool:
    """Tell whether a location is a web page rather than a path."""
    return location.lower().startswith(("http://", "https://"))


def checkpoint_query_id(location: str) -> str | None:
    """Return the id of the query whose checkpoint is at a path, or None if it is not a checkpoint."""
    if is_url(location):
        return None
    path = local_path(location)
    try:
        if path is None:
            text = read_with_spark(f"{location.rstrip('/')}/metadata")
        else:
            text = (path / "metadata").read_text(encoding="utf-8")
        return str(json.loads(text)["id"])
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, ValueError, KeyError, TypeError):
        return None


def list_with_spark(folder: str, ending: str, deep: bool) -> list[tuple[str, int]]:
    """Return the paths and sizes of the files in a folder, optionally with its subfolders, without reading them."""
    from pyspark.errors import AnalysisException

    reader = _reader(folder).format("binaryFile").option("pathGlobFilter", f"*{ending}")
    if deep:
        reader = reader.option("recursiveFileLookup", "true")
    try:
        return [(row.path, row.length) for row in reader.load(_literal(folder)).select("path", "length").collect()]
    except AnalysisException:
        return []


def read_with_spark(path: str) -> str:
    """Return the text of a file.

    Raises:
        FileNotFoundError: If it does not exist, or no longer exists.
    """
    from pyspark.errors import AnalysisException

    try:
        return "".join(row.value for row in _reader(path).text(_literal(path), wholetext=True).collect())
    except AnalysisException as error:
        raise FileNotFoundError(path) from error


def session_setting(name: str) -> str | None:
    """Return a setting of the active session; None if it is not set, or if there is no session."""
    session = _active_session()
    return None if session is None else session.conf.get(name, None)


def flush_history() -> None:
    """If there is an active session, let its driver write the history of what its queries have reported.

    This waits for at most two seconds.
    """
    session = _active_session()
    if session is not None and not is_connect(session):
        from py4j.protocol import Py4JError

        with contextlib.suppress(Py4JError):
            session.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(2000)


def rolling_log_files(folder: Path) -> Iterator[Path]:
    """Yield the files of a rolling event log, in their order: ``events_<n>_<application>``, compacted or not."""
    numbered = [(int(found[1]), file) for file in folder.iterdir() if (found := re.match(r"events_(\d+)_", file.name))]
    yield from (file for _, file in sorted(numbered))


def _literal(path: str) -> str:
    """Return the pattern of this path alone: Spark's readers take patterns."""
    return re.sub(r"([{}\[\]*?\\])", r"\\\1", path)


def _reader(path: str) -> Any:
    session = _active_session()
    if session is None:
        raise StreamJoinError("STREAMJOIN_NO_FIGURES.NO_SESSION", call="streamjoin", path=path)
    return session.read


def _active_session() -> Any:
    try:
        from pyspark.errors import PySparkRuntimeError
        from pyspark.sql import SparkSession
    except ImportError:
        return None
    try:
        # Not getActiveSession, which asks this thread alone: a notebook's display has its own.
        session: Any = SparkSession.active()
    except PySparkRuntimeError:
        return None
    has_stopped = not is_connect(session) and session.sparkContext._jsc is None
    return None if has_stopped else session
