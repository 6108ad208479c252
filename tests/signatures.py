"""The public Python API as text: ``python tests/signatures.py`` writes it to ``python/signatures.txt``.

If a commit changes that file, it changes what users may call; ``docs/compatibility.md`` says which changes are allowed.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import streamjoin as sj

FILE = Path(__file__).resolve().parent.parent / "python" / "signatures.txt"


def lines() -> list[str]:
    """Return a line for each export, and below a class one for each of its public members."""
    found: list[str] = []
    for name in sorted(vars(sj)["__all__"]):
        value = getattr(sj, name)
        if inspect.isclass(value):
            found += [f"class {name}{_fields(value)}", *(f"    {line}" for line in sorted(_members(value)))]
        elif inspect.isfunction(value):
            found.append(_signature(value))
        else:
            found.append(f"{name}: {', '.join(get_args(value)) or type(value).__name__}")
    return found


def _fields(kind: type) -> str:
    return f"({', '.join(vars(kind)['_fields'])})" if "_fields" in vars(kind) else ""


def _members(kind: type) -> list[str]:
    public = {name: value for name, value in vars(kind).items() if not name.startswith("_") or name == "__init__"}
    return [
        _signature(value) if inspect.isfunction(value) else name
        for name, value in public.items()
        if name not in vars(kind).get("_fields", ())
    ]


def _signature(function: Callable[..., Any]) -> str:
    """Return the head of a function as in its source, which is the same in all versions of Python."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(node, ast.FunctionDef)
    return f"{node.name}({ast.unparse(node.args)}) -> {ast.unparse(node.returns) if node.returns else 'None'}"


if __name__ == "__main__":
    FILE.write_text("\n".join(lines()) + "\n")
