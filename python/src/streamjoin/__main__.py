"""``python -m streamjoin``: what a shell needs to know of the package."""

import argparse
import contextlib
import math
import sys
from pathlib import Path

from streamjoin._packaging.jars import jar_path
from streamjoin._packaging.version import __version__
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
    watch = commands.add_parser("watch", help="show a query's joins live, until q or Ctrl-C")
    watch.add_argument("--interval", type=_seconds, default=1.0, metavar="SECONDS", help="between two looks")
    watch.add_argument("--once", action="store_true", help="print the table once")
    evolution = commands.add_parser("evolution", help="show what a checkpoint records of its joins")
    evolution.add_argument("checkpoint", help="a local folder")
    report = commands.add_parser("report", help="write a report of a query's batches as one HTML file")
    for command in (watch, report):
        command.add_argument(
            "query", help="a folder of the history, an event log, a checkpoint, or a Spark UI's address"
        )
        command.add_argument("--history", help="the folder of the history, for a checkpoint")
    report.add_argument("path", help="the file to write")
    arguments = parser.parse_args()
    try:
        if arguments.command == "jar":
            print(jar_path(arguments.spark))
        elif arguments.command == "version":
            print(__version__)
        elif arguments.command == "evolution":
            from streamjoin.monitoring import _recorded

            print("\n".join(_recorded.recorded(Path(arguments.checkpoint))))
        else:
            # Only these two need more than the standard library; neither needs PySpark.
            from streamjoin.monitoring import _command_line

            getattr(_command_line, arguments.command)(arguments)
    except (StreamJoinError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < (seconds := float(text)) < math.inf:
            return seconds
    raise argparse.ArgumentTypeError(f"{text} is not a positive number of seconds")


if __name__ == "__main__":
    sys.exit(main())
