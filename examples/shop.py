"""What the examples share: a session, and the streams of a shop, from the files in `data`."""

import atexit
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from pyspark.sql import DataFrame, SparkSession

import streamjoin as sj

DATA = Path(__file__).resolve().parent / "data"


def session(log_level: str = "ERROR") -> SparkSession:
    """Start a small, quiet session with the extension."""
    builder = (
        SparkSession.builder.config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", 2)
        .config("spark.ui.enabled", False)
        .config("spark.ui.showConsoleProgress", False)
        .config("spark.log.level", log_level)
    )
    return sj.configure(builder).getOrCreate()


def orders(folder: Path = DATA / "orders") -> DataFrame:
    """Return a stream of orders: their number and time."""
    stream = _stream(folder, "id INT, ordered TIMESTAMP")
    return stream.withWatermark("ordered", "10 minutes").alias("orders")


def deliveries() -> DataFrame:
    """Return a stream of deliveries: the number of the order and the time."""
    stream = _stream(DATA / "deliveries", "order_id INT, delivered TIMESTAMP")
    return stream.withWatermark("delivered", "10 minutes").alias("deliveries")


def returns() -> DataFrame:
    """Return a stream of orders sent back: the number of the order and the time."""
    stream = _stream(DATA / "returns", "returned_id INT, returned TIMESTAMP")
    return stream.withWatermark("returned", "10 minutes").alias("returns")


def new_folder() -> Path:
    """Make a folder that is removed when the program ends."""
    folder = mkdtemp()
    atexit.register(rmtree, folder, ignore_errors=True)
    return Path(folder)


def _stream(folder: Path, columns: str) -> DataFrame:
    return SparkSession.active().readStream.schema(columns).csv(str(folder))
