"""Keeps a table of a database current, batch by batch, from files that it writes in its first run."""

import json
import os

from job import REQUIRED, arguments, quiet_session, stream

import streamjoin as sj


def main() -> None:
    """Run the query from its checkpoint to the end of its input."""
    options = dict.fromkeys(("url", "dbtable", "user", "password", "driver"), REQUIRED)
    args = arguments(__doc__, "work", batches={"type": int, "required": True}, **options)
    changes = args.work / "changes"
    changes.mkdir(exist_ok=True)
    for number in range(args.batches):
        # The rows that exist are replaced by rows with the number of the batch; the newest but one
        # is removed for good.
        rows = [(a, number - 1, -1) for a in range(number) if a != number - 2]
        rows += [(a, number, 1) for a in range(number + 1) if a != number - 1]
        file = changes / f"{number}.json"
        file.write_text("".join(json.dumps({"a": a, "v": v, "_diff": diff}) + "\n" for a, v, diff in rows))
        os.utime(file, (number + 1, number + 1))
    spark = quiet_session({})
    target = {name: getattr(args, name) for name in options}
    writer = sj.upsert(stream(spark, changes, "a INT, v INT, _diff INT"), target, "a").trigger(availableNow=True)
    writer.start(checkpointLocation=str(args.work / "checkpoint")).awaitTermination()


if __name__ == "__main__":
    main()
