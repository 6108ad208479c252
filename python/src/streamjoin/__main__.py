"""``python -m streamjoin``: what a shell needs to know of the package."""

import argparse
import sys

from streamjoin._packaged_jar import jar_path
from streamjoin._version import __version__
from streamjoin.errors import StreamJoinError


def main() -> int:
    """Run one command and return the exit code: 0, or 1 after a message on standard error."""
    parser = argparse.ArgumentParser(prog="python -m streamjoin", description="Joins of streams, for Spark.")
    commands = parser.add_subparsers(dest="command", required=True)
    jar = commands.add_parser("jar", help="print the path of the jar, for spark-submit --jars")
    jar.add_argument(
        "--spark", metavar="LINE", help="line of Spark, such as 4.2; that of the installed PySpark, if left out"
    )
    commands.add_parser("version", help="print the version of package and jar")
    arguments = parser.parse_args()
    try:
        print(jar_path(arguments.spark) if arguments.command == "jar" else __version__)
    except StreamJoinError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
