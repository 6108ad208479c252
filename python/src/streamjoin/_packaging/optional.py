"""Packages that only some functions need: loaded by them, and named in the error if they are missing."""

from importlib import import_module
from typing import Any

from streamjoin.errors import StreamJoinError


def import_optional(module: str, install: str, call: str) -> Any:
    """Return a module that may not be installed.

    Args:
        module: Its name.
        install: What pip has to install.
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
