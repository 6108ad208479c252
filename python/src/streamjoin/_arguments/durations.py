"""Durations of a fixed length: what ``within=``, ``following=``, ``lag=`` and ``after=`` take."""

import re
from datetime import timedelta
from fractions import Fraction
from typing import TypeAlias

from streamjoin.errors import StreamJoinError

_MICROSECONDS = {
    "microsecond": 1,
    "us": 1,
    "µs": 1,
    "millisecond": 1_000,
    "ms": 1_000,
    "second": 1_000_000,
    "sec": 1_000_000,
    "s": 1_000_000,
    "minute": 60_000_000,
    "min": 60_000_000,
    "m": 60_000_000,
    "hour": 3_600_000_000,
    "h": 3_600_000_000,
    "day": 86_400_000_000,
    "d": 86_400_000_000,
    "week": 604_800_000_000,
    "w": 604_800_000_000,
}
_VARYING = {"month", "mon", "quarter", "year", "y"}
_PART = re.compile(r"([+-]?)\s*(\d+(?:\.\d+)?)\s*([a-zµ]+)[\s,]*")
_LONGEST = 2**63 - 1  # Spark keeps a day-time interval as microseconds in a signed 64-bit number.
Duration: TypeAlias = str | timedelta
"""Text such as ``1 hour 30 minutes``, or a ``timedelta``."""

Within: TypeAlias = Duration | tuple[Duration, Duration] | list[Duration]
"""What ``within=`` takes: a duration, or a tuple or list of two of them."""


def to_microseconds(duration: Duration, *, signed: bool = False) -> int:
    """Return the length of a duration in whole microseconds.

    Args:
        duration: Text of numbers and units (week, day, hour, minute, second, millisecond, microsecond,
            in the plural or short: ``w d h m s ms us``), with or without a leading ``INTERVAL``; or a
            ``timedelta``.
        signed: Take negative durations too.

    Raises:
        StreamJoinError: ``STREAMJOIN_WITHIN`` if it is no duration, is negative and ``signed`` is not given, is
            not a whole number of microseconds, is longer than a Spark interval can be, or has months or years in it.

    Example:
        >>> to_microseconds("1 hour 30 minutes") // 1_000_000
        5400
    """
    if isinstance(duration, timedelta):
        total = Fraction(duration // timedelta(microseconds=1))
    elif isinstance(duration, str):
        total = _parse_text(duration)
    else:
        raise _invalid_within(duration, f"it is of type {type(duration).__name__}, which has no unit")
    if total < 0 and not signed:
        raise _invalid_within(duration, "it is negative, and a distance between two times cannot be")
    if total.denominator != 1:
        raise _invalid_within(duration, "it is not a whole number of microseconds")
    if abs(total) > _LONGEST:
        raise _invalid_within(duration, "it is longer than a Spark interval can be")
    return int(total)


def within_limits(within: Within) -> tuple[int, int]:
    """Return the least and the greatest difference of two times, in whole microseconds.

    Args:
        within: A duration, for differences of at most that in either direction; or the two limits, of which either
            may be negative.

    Raises:
        StreamJoinError: ``STREAMJOIN_WITHIN``, as for :func:`to_microseconds`; or if the limits are not two, or the
            lower one is above the upper one.

    Example:
        >>> within_limits("5 seconds"), within_limits(("0 seconds", "1 hour"))
        ((-5000000, 5000000), (0, 3600000000))
    """
    if not isinstance(within, tuple | list):
        length = to_microseconds(within)
        return -length, length
    if len(within) != 2:
        raise _invalid_within(within, f"it has {len(within)} limits, not two")
    low, high = (to_microseconds(limit, signed=True) for limit in within)
    if low > high:
        raise _invalid_within(within, "its lower limit is above its upper limit, so no two times would match")
    return low, high


def checked_microseconds(duration: Duration, argument: str, call: str, *, least: int = 0) -> int:
    """Return the length of an argument in whole microseconds.

    Args:
        duration: As for :func:`to_microseconds`.
        argument: Its name, for the error.
        call: The function that has it, for the error.
        least: The shortest length that is accepted, in microseconds.

    Raises:
        StreamJoinError: ``STREAMJOIN_DURATION``.

    Example:
        >>> checked_microseconds("1.5s", "following", "sj.window_join")
        1500000
    """
    try:
        length = to_microseconds(duration, signed=True)
    except StreamJoinError as error:
        reason = error.getMessageParameters()["reason"]
        raise _invalid_argument(duration, argument, call, reason) from None
    if length < least:
        raise _invalid_argument(duration, argument, call, "it is too short" if length >= 0 else "it is negative")
    return length


def spark_interval(duration: Duration, argument: str, call: str, *, least: int = 0) -> str:
    """Return a duration as the text of an interval, as ``withWatermark`` takes it.

    Its arguments are those of :func:`checked_microseconds`.

    Example:
        >>> spark_interval("1.5s", "lag", "sj.impose_order")
        '1500000 microseconds'
    """
    return f"{checked_microseconds(duration, argument, call, least=least)} microseconds"


def _invalid_argument(duration: object, argument: str, call: str, reason: str) -> StreamJoinError:
    return StreamJoinError("STREAMJOIN_DURATION", call=call, argument=argument, duration=repr(duration), reason=reason)


def _parse_text(text: str) -> Fraction:
    rest = re.sub(r"^\s*interval\b", "", text.lower()).strip()
    if not rest:
        raise _invalid_within(text, "it is empty")
    total, position = Fraction(0), 0
    while position < len(rest):
        part = _PART.match(rest, position)
        if part is None:
            raise _invalid_within(text, f"{rest[position:]!r} is not a number followed by a unit")
        sign, number, unit = part.groups()
        total += Fraction(f"{sign}{number}") * _unit(text, unit)
        position = part.end()
    return total


def _unit(text: str, unit: str) -> int:
    for name in (unit, unit.removesuffix("s")):
        if name in _MICROSECONDS:
            return _MICROSECONDS[name]
        if name in _VARYING:
            raise _invalid_within(text, f"the length of a {name} varies; write it in days")
    raise _invalid_within(text, f"{unit!r} is not a unit of time")


def _invalid_within(found: object, reason: str) -> StreamJoinError:
    return StreamJoinError("STREAMJOIN_WITHIN", within=repr(found), reason=reason)
