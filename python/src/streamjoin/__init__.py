"""Joins of streams with bounded state, for Apache Spark.

``configure`` adds the extension to a Spark session; from then on a plain ``df.join`` of two streams with time
bounds runs on its operator. ``join`` writes the bounds for you, ``window_join`` puts the output in the
order of time, ``bounds`` shows what they keep in state,
``late_rows`` what came too late for it, and ``check`` says whether a session is ready, and if not, what to do.
``arrange`` keeps a collection with its indexes for many queries, ``arrangement`` reads one, ``delta_join`` joins
them, and ``table`` is one that streams look up. ``temporal_join`` finds for each row of a stream what was valid at its
time, in ``versions`` of a table, and ``asof_join`` the row of another stream that is closest.
``impose_order``, ``with_bounds`` and ``idle_after`` say of a stream how far it is.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from streamjoin.errors import Condition, StreamJoinError
from streamjoin.version import __version__

if TYPE_CHECKING:
    from streamjoin._arrange import arrange
    from streamjoin._arrangement import Arrangement, Reader, Versions, arrangement
    from streamjoin._asof_join import asof_join
    from streamjoin._bounds import bounds
    from streamjoin._check import check
    from streamjoin._configure import configure
    from streamjoin._delta_join import delta_join
    from streamjoin._idle_after import idle_after
    from streamjoin._impose_order import impose_order
    from streamjoin._join import JoinType, join
    from streamjoin._late_rows import late_rows
    from streamjoin._table import table
    from streamjoin._temporal_join import NOW, StreamJoinType, temporal_join
    from streamjoin._versions import VersionedStream, versions
    from streamjoin._window_join import window_join
    from streamjoin._with_bounds import with_bounds

__all__ = [
    "NOW",
    "Arrangement",
    "Condition",
    "JoinType",
    "Reader",
    "StreamJoinError",
    "StreamJoinType",
    "VersionedStream",
    "Versions",
    "__version__",
    "arrange",
    "arrangement",
    "asof_join",
    "bounds",
    "check",
    "configure",
    "delta_join",
    "idle_after",
    "impose_order",
    "join",
    "late_rows",
    "table",
    "temporal_join",
    "versions",
    "window_join",
    "with_bounds",
]

# Loaded on first access: `python -m streamjoin jar` has to work without PySpark.
_NEEDS_PYSPARK = {
    "NOW": "_temporal_join",
    "Arrangement": "_arrangement",
    "JoinType": "_join",
    "Reader": "_arrangement",
    "StreamJoinType": "_temporal_join",
    "VersionedStream": "_versions",
    "Versions": "_arrangement",
    "arrange": "_arrange",
    "arrangement": "_arrangement",
    "asof_join": "_asof_join",
    "bounds": "_bounds",
    "check": "_check",
    "configure": "_configure",
    "delta_join": "_delta_join",
    "idle_after": "_idle_after",
    "impose_order": "_impose_order",
    "join": "_join",
    "late_rows": "_late_rows",
    "table": "_table",
    "temporal_join": "_temporal_join",
    "versions": "_versions",
    "window_join": "_window_join",
    "with_bounds": "_with_bounds",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name not in _NEEDS_PYSPARK:
        raise AttributeError(f"module 'streamjoin' has no attribute {name!r}")
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"streamjoin.{name} needs PySpark, which is not installed here. Run `pip install 'streamjoin[spark]'`, "
            "or start Python with the spark-submit of a Spark installation, which brings its own."
        ) from error
    value = getattr(import_module(f"streamjoin.{_NEEDS_PYSPARK[name]}"), name)
    globals()[name] = value
    return value
