"""Keeps a table of a database current, batch by batch, from files that it writes the first time."""

import argparse
import json
import os
from pathlib import Path

from quiet_session import quiet_session

import streamjoin as sj


def main() -> None:
    """Run the query from its checkpoint to the end of its input."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--batches", type=int, required=True)
    for option in ("url", "dbtable", "user", "password", "driver"):
        parser.add_argument(f"--{option}", required=True)
    args = parser.parse_args()
    changes = args.work / "changes"
    changes.mkdir(exist_ok=True)
    for number in range(args.batches):
        # Rows that were there go and come with the number of the batch; the newest but one goes for
        # good in its batch.
        rows = [(a, number - 1, -1) for a in range(number) if a != number - 2]
        rows += [(a, number, 1) for a in range(number + 1) if a != number - 1]
        file = changes / f"{number}.json"
        file.write_text("".join(json.dumps({"a": a, "v": v, "_diff": diff}) + "\n" for a, v, diff in rows))
        os.utime(file, (number + 1, number + 1))
    spark = quiet_session({})
    stream = spark.readStream.schema("a INT, v INT, _diff INT").option("maxFilesPerTrigger", 1).json(str(changes))
    target = {name: getattr(args, name) for name in ("url", "dbtable", "user", "password", "driver")}
    writer = sj.upsert(stream, target, "a").trigger(availableNow=True)
    writer.start(checkpointLocation=str(args.work / "checkpoint")).awaitTermination()


if __name__ == "__main__":
    main()
