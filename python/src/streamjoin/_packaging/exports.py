"""What a package exports: listed only in its stub ``__init__.pyi``, and loaded on first use."""

import ast
import pkgutil
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazy_exports(package: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__all__``, ``__getattr__`` and ``__dir__`` of a package that is being imported.

    Its stub has a line ``from <module> import <name> as <name>`` for each export.
    """
    stub = pkgutil.get_data(package, "__init__.pyi")
    assert stub is not None, f"{package} has no loader that can read __init__.pyi"
    homes = {
        alias.name: each.module
        for each in ast.parse(stub).body
        if isinstance(each, ast.ImportFrom) and each.module is not None
        for alias in each.names
    }

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            value = getattr(import_module(homes[name]), name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in ("pyspark", "py4j"):
                raise
            raise ImportError(
                f"{package}.{name} needs PySpark, which is not installed here. Run `pip install 'streamjoin[spark]'`, "
                "or start Python with the spark-submit of a Spark installation, which brings its own."
            ) from error
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return sorted(homes), load, names
