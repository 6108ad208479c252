"""Arguments that had another name in an earlier version."""

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")


def renamed_argument(old: str, new: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Let a function of the API accept the old keyword of an argument, with a warning that says what to write."""

    def accept_old(function: Callable[_P, _R]) -> Callable[_P, _R]:
        @wraps(function)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            given: dict[str, Any] = kwargs
            if old in given and new not in given:
                name = f"sj.{function.__name__}"
                warnings.warn(
                    f"Write {name}({new}=...): the argument {old}= was renamed to {new}=.",
                    DeprecationWarning,
                    stacklevel=2,
                )
                given[new] = given.pop(old)
            return function(*args, **kwargs)

        return call

    return accept_old
