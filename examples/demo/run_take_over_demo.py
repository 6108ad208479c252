"""A query of plain Spark that continues on streamjoin: the same job, checkpoint and sink.

The first half of both streams is joined by Spark's own operator, in a session without streamjoin. Then the job is
started again with the jar, the extension and ``spark.streamjoin.evolve=exact``: streamjoin reads the state of Spark's
join, and joins the second half. The files of both runs together are compared with DuckDB's answer.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from check_orders import check
from generate_orders import streams, write_files
from pyspark.sql import SparkSession
from spark_submit import environment, spark_submit

JOB = Path(__file__).with_name("take_over.py")


def main() -> int:
    """Run the demo; return 0 if both runs together have written the right rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=200_000)
    parser.add_argument("--work", type=Path, default=Path("build/demo-take-over"))
    args = parser.parse_args()
    work = args.work.resolve()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    print(f"Generating {args.orders:,} orders and their deliveries", flush=True)
    generated = streams(args.orders)
    half = len(generated.steps) // 2

    write_files(generated, work, pause=0, steps=slice(half))
    print("First half, plain Spark:", flush=True)
    run(spark_submit(JOB, f"--work={work}", plain=True))
    write_files(generated, work, pause=0, steps=slice(half, None))
    print("\nSecond half, streamjoin, with the same checkpoint:", flush=True)
    run(spark_submit(JOB, f"--work={work}", settings=["spark.streamjoin.evolve=exact"]))

    spark = SparkSession.builder.master("local[2]").config("spark.log.level", "ERROR").getOrCreate()
    # The files that the sink's log names: a batch that was cut off may leave others in the folder.
    files = [name.removeprefix("file://") for name in spark.read.parquet(str(work / "joined")).inputFiles()]
    spark.stop()
    checked = check(work, f"read_parquet({files})")
    checked.show()
    print("\nThe same rows" if checked.same else "\nDIFFERENT ROWS")
    return 0 if checked.same else 1


def run(command: list[str]) -> None:
    """Run a job to its end."""
    subprocess.run(command, check=True, env=environment())


if __name__ == "__main__":
    sys.exit(main())
