"""Packages that only some functions need: they are loaded there, and named where they are missing."""

from importlib import import_module
from typing import Any

from streamjoin.errors import StreamJoinError


def import_optional(module: str, install: str, call: str) -> Any:
    """Return a module that may not be installed.

    Args:
        module: Its name.
        install: What pip installs to have it.
        call: What needs it.

    Raises:
        StreamJoinError: ``STREAMJOIN_PACKAGE_MISSING``.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != module.partition(".")[0]:
            raise
        raise StreamJoinError(
            "STREAMJOIN_PACKAGE_MISSING", call=call, package=module.partition(".")[0], install=install
        ) from error
