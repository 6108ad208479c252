"""Adds to the source distribution what the jars in it are built from: the Scala sources and their build."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FILES = ("build.sbt", "VERSION")


class Sources(BuildHookInterface):
    """The hook of the source distribution."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """List the files by their places in the project, which are those in the archive."""
        here = Path(self.root)
        # In an unpacked source distribution they are next to this file.
        root = here if (here / "scala").is_dir() else here.parent
        files = [root / name for name in FILES]
        files += [file for part in ("core", "spark") for file in (root / "scala" / part / "src" / "main").rglob("*")]
        for name in ("scala/published/licenses", "project", "project/lint", "project/locks", "project/release"):
            files += (root / name).iterdir()
        for file in files:
            if file.is_file() and file.suffix != ".pyc":
                build_data["force_include"][str(file)] = str(file.relative_to(root))
