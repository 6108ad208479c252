"""The event-time column of a stream: the one that carries its watermark."""

from pyspark.sql import DataFrame
from pyspark.sql.types import TimestampType

from streamjoin.errors import StreamJoinError

_WATERMARK = "spark.watermarkDelayMs"  # Spark marks an event-time column with it (EventTimeWatermark.delayKey).
_ROWTIME = "streamjoin.rowtime"  # Marks the rowtime of a window join, which goes before other event times.

_BOUND = (
    "Drop the others before. Or join with sj.join, leave within= out and write the bound on the one you mean into on=, "
    "for example F.expr(\"l.{0} BETWEEN r.time - INTERVAL '5' SECOND AND r.time + INTERVAL '5' SECOND\")."
)


def event_times(left: DataFrame, right: DataFrame, call: str = "within=", among: str = _BOUND) -> tuple[str, str]:
    """Return the names of the event-time columns of both inputs; arguments as for :func:`event_time`."""
    return event_time(left, "left", call, among), event_time(right, "right", call, among)


def event_time(df: DataFrame, side: str, call: str, among: str = _BOUND) -> str:
    """Return the name of the one event-time column of an input.

    Args:
        df: The input.
        side: ``left`` or ``right``, for the error.
        call: The function that needs it, for the error.
        among: What to write if there are several, with ``{0}`` for the first.

    Raises:
        StreamJoinError: ``STREAMJOIN_EVENT_TIME``, ``STREAMJOIN_NOT_A_STREAM``.
    """
    times = [field for field in df.schema.fields if isinstance(field.dataType, TimestampType)]
    rowtimes = [field.name for field in times if _ROWTIME in field.metadata]
    marked = rowtimes or [field.name for field in times if _WATERMARK in field.metadata]
    if len(marked) == 1:
        return marked[0]
    if marked:
        raise StreamJoinError(
            "STREAMJOIN_EVENT_TIME",
            call=call,
            side=side,
            found=f"{len(marked)}: {', '.join(marked)}",
            advice=among.format(marked[0]),
        )
    if not df.isStreaming:
        raise StreamJoinError(
            "STREAMJOIN_NOT_A_STREAM",
            call=call,
            wanted="two streams",
            found=f"the {side} input is a batch, whose columns carry no watermark",
            advice="Join with sj.join, leave within= out, and write the distance into on=.",
        )
    example = times[0].name if times else "time"
    candidates = ", ".join(field.name for field in times) or "none"
    raise StreamJoinError(
        "STREAMJOIN_EVENT_TIME",
        call=call,
        side=side,
        found=f"none (its timestamp columns: {candidates}; all columns: {', '.join(df.columns)})",
        advice=f'Mark one before the join: {side} = {side}.withWatermark("{example}", "10 seconds").',
    )
