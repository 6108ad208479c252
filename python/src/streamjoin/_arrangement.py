"""``arrangement``: what a query of ``arrange`` keeps, to look at and to read."""

from datetime import datetime
from typing import NamedTuple

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import StructType

from streamjoin.jvm import batch_limits, checked_entry, is_connect, wrong_argument
from streamjoin.sql import ask


class Versions(NamedTuple):
    """The versions of an arrangement that can be read: the oldest and the newest."""

    oldest: int
    newest: int


class Reader(NamedTuple):
    """A query that reads the changes of an arrangement.

    ``version`` is the one up to which it has read, as of the begin of its last batch; ``versions_behind`` how many
    there are after it; ``since`` when it came there. Its ``name`` is the folder of the source in the
    query's checkpoint, or an id where that is too long for the name of a file.
    """

    name: str
    version: int
    versions_behind: int
    since: datetime


class Arrangement:
    """An arrangement; its properties say what it is at the time when they are asked."""

    def __init__(self, path: str, spark: SparkSession) -> None:
        self._spark = spark
        row = _ask(spark, path)
        #: Its name in the folder of arrangements.
        self.name: str = row.name
        #: Its folder.
        self.path: str = row.path
        #: The columns of each of its indexes; the first is the primary key of a changelog.
        self.keys: list[list[str]] = [list(key) for key in row["keys"]]

    @property
    def schema(self) -> StructType:
        """The columns of its rows."""
        return self._spark.read.format("streamjoin").load(self.path).schema

    @property
    def versions(self) -> Versions | None:
        """The oldest and the newest version that can be read, or None before the first."""
        row = self._now()
        return None if row.newest_version is None else Versions(row.oldest_version, row.newest_version)

    @property
    def rows(self) -> int:
        """How many rows the newest version has."""
        return int(self._now().rows)

    @property
    def bytes(self) -> int:
        """How many bytes the files of its newest version have: the newest base, and the changes after it."""
        return int(self._now().bytes)

    @property
    def readers(self) -> list[Reader]:
        """The queries that read its changes, the slowest first."""
        return [Reader(*reader) for reader in self._now().readers]

    def toDF(self, version: int | None = None) -> DataFrame:  # noqa: N802 (as PySpark's)
        """Return the rows as a table.

        Args:
            version: The version to read; without it, the newest at the time when the table is read.

        Returns:
            A batch DataFrame with the columns of ``schema``. Reading it raises ``STREAMJOIN_NO_VERSION`` if there is no
            such version yet, and ``STREAMJOIN_ARRANGEMENT_RETENTION`` if it is not kept any more.
        """
        reader = self._spark.read.format("streamjoin")
        return (reader if version is None else reader.option("version", version)).load(self.path)

    def changes(
        self, *, max_versions_per_trigger: int | None = None, max_rows_per_trigger: int | None = None
    ) -> DataFrame:
        """Return the changes as a stream, which begins with the rows that are there.

        Args:
            max_versions_per_trigger: At most so many versions are in a batch.
            max_rows_per_trigger: The rows that are there come in slices of about so many, a batch each.

        Returns:
            A streaming DataFrame with the columns of ``schema``, ``_version`` (BIGINT, in which a row came or went) and
            ``_diff`` (BIGINT, how many copies came, or went where it is negative).
        """
        options = batch_limits(
            "changes", maxVersionsPerTrigger=max_versions_per_trigger, maxRowsPerTrigger=max_rows_per_trigger
        )
        reader = self._spark.readStream.format("streamjoin")
        for name, limit in options.items():
            reader = reader.option(name, limit)
        return reader.load(self.path)

    def _now(self) -> Row:
        return _ask(self._spark, self.path)

    def __repr__(self) -> str:
        keys = ", ".join(f"[{', '.join(key)}]" for key in self.keys)
        return f"Arrangement {self.name} at {self.path}, keys {keys}"


def arrangement(name: str, spark: SparkSession | None = None) -> Arrangement:
    """Return an arrangement, to look at it and to read it.

    ``sj_arrangements()`` has the same as a table in SQL, a row for each arrangement of the folder.

    Args:
        name: Its name in the folder ``spark.streamjoin.arrangements``, or its path.
        spark: The session, of Spark Connect too; without it, the active one.

    Raises:
        StreamJoinError: ``STREAMJOIN_WRONG_ARGUMENT``, or any of :func:`streamjoin.check`.
        pyspark.errors.AnalysisException: ``STREAMJOIN_NO_ARRANGEMENT``; ``STREAMJOIN_NO_ARRANGEMENTS_FOLDER``;
            ``STREAMJOIN_ARRANGEMENT_UNREADABLE``.

    Example:
        >>> orders = arrangement("orders")
        >>> orders.keys
        [['order_id'], ['customer_id']]
        >>> orders.toDF().columns
        ['order_id', 'customer_id', 'total']
        >>> orders.changes().columns
        ['order_id', 'customer_id', 'total', '_version', '_diff']
    """
    if not isinstance(name, str) or not name.strip():
        raise wrong_argument("sj.arrangement", "the name or the path of an arrangement", name)
    session = spark or SparkSession.active()
    if not is_connect(session):
        checked_entry(session)
    return Arrangement(name, session)


def _ask(spark: SparkSession, name_or_path: str) -> Row:
    text = name_or_path.replace("\\", "\\\\").replace("'", "\\'")
    (row,) = ask(spark, f"SELECT * FROM sj_arrangements('{text}')").collect()
    return row
