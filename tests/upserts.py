"""What the tests of upserts share: a stream of changes, and the query that writes it to a target."""

from pathlib import Path
from typing import Any

from arranged_shop import Shop
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from queries import Values, finish
from servers.postgres import Postgres

import streamjoin as sj

COLUMNS = "a INT, b STRING, v INT, _diff INT"


def run(df: DataFrame, target: Any, keys: Any, checkpoint: str, **options: Any) -> StreamingQuery:
    """Run a query to the end of its input."""
    return finish(sj.upsert(df, target, keys, **options), checkpoint)


class Kept:
    """A stream of changes, and a query that keeps a table current by them."""

    def __init__(self, shop: Shop, target: dict[str, str], name: str = "changes", columns: str = COLUMNS) -> None:
        self.shop, self.target, self.name = shop, target, name
        self.changes = shop.stream(name, columns)
        self.checkpoint = shop.checkpoint(name)

    def feed(self, *changes: Values) -> None:
        """Add a batch of changes."""
        self.shop.feed(self.name, *changes)

    def run(self, keys: Any = "a", checkpoint: str | None = None, **options: str) -> StreamingQuery:
        """Run the query to the end of its input."""
        return run(self.changes, self.target | options, keys, checkpoint or self.checkpoint)


def forget_commit(checkpoint: str) -> int:
    """Remove the last commit: a driver died after the target had the batch, and before Spark knew."""
    commits = Path(checkpoint, "commits")
    last = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
    return last


def change(a: int | None, b: str | int | None, v: int | None, diff: int | None) -> Values:
    return {"a": a, "b": b, "v": v, "_diff": diff}


def tables(postgres: Postgres) -> set[str]:
    return {name for (name,) in postgres.query("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")}
