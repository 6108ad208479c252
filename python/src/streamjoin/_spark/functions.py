"""What can be called in a query: ``functions.json``. The jar contains a copy."""

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple, Required, TypedDict

from streamjoin._resources import read_file
from streamjoin.errors import StreamJoinError


class _Argument(TypedDict, total=False):
    name: Required[str]
    type: Required[str]
    default: object


class _Call(NamedTuple):
    function: str
    arguments: list[_Argument]


_KINDS: dict[str, tuple[type, str]] = {
    "text": (str, "text"),
    "boolean": (bool, "True or False"),
    "count": (int, "a whole number"),
    "texts": (list, "a list"),
    "text lists": (list, "a list of lists"),
}


@cache
def _calls() -> dict[tuple[str, bool], _Call]:
    """Return each call with its function, keyed by the name and whether it is called on a DataFrame."""
    table = json.loads(read_file("functions.json"))
    return {
        (call["name"], call["form"] == "frame"): _Call(function.get("python", ""), call.get("arguments", []))
        for function in table.values()
        for call in function.get("calls", ())
    }


def checked(name: str, values: Mapping[str, object], *, on_frame: bool) -> Mapping[str, object]:
    """Return the arguments of a call after checking their types against the table.

    Raises:
        StreamJoinError: ``STREAMJOIN_WRONG_ARGUMENT`` for a value of another type.
    """
    call = _calls()[name, on_frame]
    known = {argument["name"]: argument for argument in call.arguments}
    for key, value in values.items():
        assert key in known, f"{name} has no argument {key}, but {', '.join(known)}"
        kind, words = _KINDS[known[key]["type"]]
        if not isinstance(value, kind):
            raise StreamJoinError(
                "STREAMJOIN_WRONG_ARGUMENT", call=call.function, wanted=f"{words} as {key}", found=repr(value)
            )
    missing = [key for key, argument in known.items() if "default" not in argument and key not in values]
    assert not missing, f"{name} needs {', '.join(missing)}"
    return values


def sql_call(name: str, *values: str | bool | int) -> str:
    """Return SQL for a call of a table function, whose arguments are in the order of the table."""
    names = [argument["name"] for argument in _calls()[name, False].arguments]
    given = checked(name, dict(zip(names, values, strict=False)), on_frame=False)
    return f"{name}({', '.join(map(_literal, given.values()))})"


def _literal(value: object) -> str:
    """Return a value in SQL. Text that would need quotes or escapes becomes its UTF-8 bytes, ``X'6974277320'``.

    Its meaning then does not depend on ``spark.sql.parser.escapedStringLiterals`` or on the order of the extensions'
    parsers. Parameters would: Spark writes them into the text with escapes, and other parsers drop them.
    """
    text = str(value)
    if not isinstance(value, str):
        return text.lower()
    return f"'{text}'" if re.fullmatch(r"[A-Za-z0-9_ .,:/=<>()+*-]*", text) else f"X'{text.encode().hex().upper()}'"
