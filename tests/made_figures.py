"""Plausible figures of chains of joins, with a given number of inputs and given bounds."""

from typing import Any

Figures = dict[str, Any]
START = 1_767_225_600_000  # 2026-01-01
MINUTE = 60_000
FUTURE = 1_795_000_000_000_000  # a time of 2026 in milliseconds, taken for seconds
NAMES = (
    *("orders", "payments", "invoices", "shipments", "deliveries", "returns", "refunds", "reviews"),
    *("complaints_of_customers_by_telephone", "replies", "surveys", "renewals"),
)


def made(inputs: int, bound: int, batches: int = 40, delay: int = MINUTE, *, future: bool = False) -> list[Figures]:
    """Return the batches of a chain with a number of inputs; the last batch is empty.

    The second input stalls from the middle on. Times are in milliseconds. With ``future``, the last input has a row
    of another age.
    """
    return [_batch(at, inputs, bound, batches, delay, future) for at in range(batches)]


def _batch(at: int, inputs: int, bound: int, batches: int, delay: int, future: bool) -> Figures:
    empty = at == batches - 1
    took = 23_456 - at * 1000 if at < 2 else 900 + at * 37 % 400
    newest = [START + min(at, batches - 2) * MINUTE + number * 500 for number in range(inputs)]
    newest[1] -= max(at - batches // 2, 0) * MINUTE
    if future:
        newest[-1] = FUTURE
    operators = [_operator(number, newest, bound, delay, empty) for number in range(1, inputs)]
    return {
        "version": 1,
        "id": f"00000000-0000-0000-0000-{inputs:012}",
        "runId": "00000000-0000-0000-0000-000000000001",
        "name": f"{inputs} inputs, a bound of {bound} ms",
        "batch": at,
        "timestamp": START + at * 10_000,
        "triggerMs": 1000,
        "phasesMs": {
            "triggerExecution": took,
            "addBatch": took - 80,
            "queryPlanning": 70,
            "getBatch": 7,
            "walCommit": 1,
        },
        "operators": operators[::-1],
    }


def _operator(number: int, newest: list[int], bound: int, delay: int, empty: bool) -> Figures:
    """Return the join of the inputs before a number with the one of that number."""
    holder = min(range(number), key=lambda at: newest[at])
    sides = [
        _input("left", " with ".join(NAMES[:number]), f"{NAMES[number - 1]}.time", newest[number - 1]),
        _input("right", NAMES[number], f"{NAMES[number]}.time", newest[number]),
    ]
    watermarks = [newest[holder] - delay, newest[number] - delay]
    for side, watermark, held_by in zip(sides, watermarks, (NAMES[holder], NAMES[number]), strict=True):
        side["columns"][0] |= {"watermark": watermark, "heldBy": held_by}
    for side, other, postpone in ((sides[0], sides[1], bound), (sides[1], sides[0], 0)):
        limit = other["columns"][0]["watermark"] - postpone
        column = other["columns"][0]["name"]
        side["oldest"] = min(limit + 700, side["columns"][0]["newest"])
        side |= {"leavesBy": column, "leavesAfter": side["oldest"] + postpone}
        side["leaves"] = [{"time": side["columns"][0]["name"], "column": column, "postponeMs": postpone}]
        side["rowsIn"] = 0 if empty else 1234
    sides[0]["below"] = [number - 1] if number > 1 else []
    buckets = [{"fromMs": at * bound // 20, "toMs": (at + 1) * bound // 20, "pairs": 40 - at} for at in range(12)]
    return {
        "operator": number,
        "kind": "interval_join",
        "title": "left outer interval join",
        "rowsOut": 0 if empty else 1000,
        "late": 0 if empty else 3,
        "padded": 17,
        "rowsKept": 1_234_567,
        "bytesKept": 45_678_900,
        "memoryBytes": 56_789_000,
        "phasesMs": {"load": 1, "left": 3, "right": 2, "evict": 40, "commit": 1234},
        "tasks": {"rows": [10_000, 90_000, 20_000, 5_000], "bytes": [1, 2, 3, 4], "ms": [100, 400, 90, 80]},
        "distances": {
            "of": f"{NAMES[number]}.time - {NAMES[number - 1]}.time",
            "lowestMs": 0,
            "highestMs": bound,
            "buckets": buckets,
        },
        "inputs": sides,
        "hints": [],
    }


def _input(side: str, name: str, column: str, newest: int) -> Figures:
    lateness = [
        {"fromMs": 0, "toMs": 1, "rows": 100_000},
        *({"fromMs": 1 << at, "toMs": 2 << at, "rows": 20 - at} for at in range(8, 18)),
    ]
    return {
        "side": side,
        "name": name,
        "late": 3,
        "rowsKept": 73_042,
        "bytesKept": 4_400_000,
        "columns": [{"name": column, "newest": newest}],
        "lateness": {"delayMs": MINUTE, "buckets": lateness},
        "hints": [],
    }
