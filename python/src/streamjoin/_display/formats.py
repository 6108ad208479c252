"""Figures in words: durations, times and bytes at a glance."""

import math
from datetime import UTC, datetime, timedelta

_UNITS = {"day": 86_400_000, "hour": 3_600_000, "minute": 60_000, "second": 1000, "ms": 1}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CYCLE = 146_097 * 86_400_000
"""400 years, in milliseconds."""


def format_duration(millis: float) -> str:
    """Return a duration in its two largest units; from ten seconds on, in whole seconds.

    Example:
        >>> format_duration(5_400_000), format_duration(-250), format_duration(0)
        ('1 hour 30 minutes', '-250 ms', '0 seconds')
    """
    rest, parts = abs(round(millis)), list[str]()
    if rest >= 10_000:
        rest = round(rest / 1000) * 1000
    for name, size in _UNITS.items():
        many, rest = divmod(rest, size)
        if many:
            parts.append(f"{many} {name}{'s' if many > 1 and name != 'ms' else ''}")
    return ("-" if millis < 0 else "") + " ".join(parts[:2]) if parts else "0 seconds"


def format_time(millis: float) -> str:
    """Return a time in UTC, without a fraction that is zero.

    Example:
        >>> format_time(1_767_225_600_000)
        '2026-01-01 00:00:00'
        >>> format_time(1_795_733_424_000_000)
        '58874-07-11 16:00:00'
    """
    # A broken row may have a time of any year. The calendar repeats itself after 400 years.
    cycles = math.floor(millis / _CYCLE)
    time = _EPOCH + timedelta(milliseconds=millis - cycles * _CYCLE)
    text = f"{time.year + 400 * cycles:04d}" + time.strftime("-%m-%d %H:%M:%S.%f")[:-3]
    return text.removesuffix(".000")


def format_bytes(many: float) -> str:
    """Return a number of bytes with its unit.

    Example:
        >>> format_bytes(999), format_bytes(34_000)
        ('999 B', '34.0 kB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if many < 1000:
            return f"{many:.0f} B" if unit == "B" else f"{many:.1f} {unit}"
        many /= 1000
    return f"{many:.1f} TB"
