"""The queries: for each its variants, each a file of SQL in the folder ``sql``, and DuckDB's answer.

The files use the views ``person``, ``auction``, ``bid`` and ``side``, and the arrangements ``persons``, ``auctions``,
``bids`` and ``sides``. Names in ``${}`` are times in milliseconds that follow from the setting.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from nexmark.generator import FAR, KINDS, Setting, connect

FILES = Path(__file__).with_name("sql")
# The delay of each watermark, as published.
DELAY_MS = 4000
# For each arrangement, what is in it and the key of its index.
ARRANGEMENTS = {
    "persons": ("person", "id"),
    "auctions": ("auction", "seller"),
    "bids": ("bid", "bidder"),
    "sides": ("side", "key"),
}
FOREVER = "all rows of both inputs"


@dataclass(frozen=True)
class Variant:
    """A query as one of the engines runs it.

    Attributes:
        file: the name of its SQL file, without its end.
        how: what distinguishes it, for the tables.
        spark: whether Spark's own join runs it.
        ours: whether streamjoin runs it.
        arranged: the arrangements that it reads.
        keeps: what Spark keeps forever; empty if its state is bounded.
        loses: whether Spark's own join evicts rows that can still match, which the tables then show.
        store: whether it has state, so that the state store matters.
    """

    file: str
    how: str
    spark: bool = True
    ours: bool = True
    arranged: tuple[str, ...] = ()
    keeps: str = ""
    loses: bool = False
    store: bool = True

    @property
    def is_delta(self) -> bool:
        """Whether its rows are changes, with a column ``_diff``."""
        return self.file.endswith("-delta")

    @property
    def is_sound(self) -> bool:
        """Whether Spark's own join keeps nothing forever and loses no rows."""
        return not self.keeps and not self.loses


@dataclass(frozen=True)
class Query:
    """One of Nexmark's queries.

    Attributes:
        name: as in the tables.
        title: one line for the reader.
        reads: which kinds of events it reads.
        numbers: columns of its result that are numbers.
        times: columns of its result that are times.
        variants: how it is run; the first one is the published text, as far as Spark runs it.
        answer: the SQL file that DuckDB runs.
        expires: whether it matters how long an auction lives.
        goal: how many times as fast as Spark's own join streamjoin should be; None without a goal.
    """

    name: str
    title: str
    reads: tuple[str, ...]
    numbers: tuple[str, ...]
    times: tuple[str, ...]
    variants: tuple[Variant, ...]
    answer: str
    expires: bool = False
    goal: float | None = None

    def stores(self, variant: Variant) -> bool:
        """Tell whether Spark runs a variant with all of its state stores, or only with the default one.

        The latter is for what has no state, and for what keeps rows forever or loses some if another variant does not.
        """
        sound = any(other.spark and other.is_sound for other in self.variants)
        return variant.store and (variant.is_sound or not sound)


def _unbounded(name: str, keeps: str = FOREVER) -> Variant:
    return Variant(name, "as published", ours=False, keeps=keeps)


def _too_early(name: str) -> Variant:
    # Spark 4.2 takes `b.dateTime <= a.expires` for a bound of `a.dateTime`, and evicts an auction
    # once the watermark has passed its beginning.
    return Variant(name, "as published", loses=True)


_CONSTANT = "constant bound added"
_OF_GENERATOR = "bounds of the generator added"

ALL = (
    Query(
        "q3",
        "Query 3: who sells in some states",
        ("person", "auction"),
        ("id",),
        (),
        (
            _unbounded("q3"),
            Variant("q3-lookup", "look-up with rematch", spark=False, arranged=("persons",)),
            Variant("q3-delta", "delta join", spark=False, arranged=("auctions", "persons")),
        ),
        "q3",
    ),
    Query(
        "q4",
        "Query 4, its join: bids while their auction is open",
        ("auction", "bid"),
        ("id", "category", "price"),
        ("dateTime",),
        (_too_early("q4"), Variant("q4-bounded", _CONSTANT)),
        "q4",
        expires=True,
    ),
    Query(
        "q7",
        "Query 7: the highest bids of each ten seconds",
        ("bid",),
        ("auction", "price", "bidder"),
        ("dateTime",),
        (Variant("q7", "as published", keeps="all bids and maxima"), Variant("q7-bounded", "time of the window")),
        "q7-duckdb",
        goal=4,
    ),
    Query(
        "q8",
        "Query 8: new persons who sell within the same ten seconds",
        ("person", "auction"),
        ("id",),
        ("starttime",),
        (Variant("q8", "as published"),),
        "q8-duckdb",
        goal=4,
    ),
    Query(
        "q9",
        "Query 9, its join: auctions with the bids while they are open, all columns",
        ("auction", "bid"),
        ("id", "seller", "bidder", "price"),
        ("dateTime", "expires", "bid_dateTime"),
        (_too_early("q9"), Variant("q9-bounded", _CONSTANT)),
        "q9",
        expires=True,
        goal=4,
    ),
    Query(
        "q13",
        "Query 13: bids with a value of a side input",
        ("bid",),
        ("auction", "bidder", "price"),
        ("dateTime",),
        (
            Variant("q13", "a static file", ours=False, store=False),
            Variant("q13-table", "sj.table", spark=False, arranged=("sides",)),
        ),
        "q13",
    ),
    Query(
        "q20",
        "Query 20: bids with their auction, one category",
        ("auction", "bid"),
        ("auction", "bidder", "price", "seller"),
        ("bid_dateTime", "auction_dateTime", "expires"),
        (_unbounded("q20"), Variant("q20-bounded", _OF_GENERATOR)),
        "q20",
        expires=True,
        goal=4,
    ),
    Query(
        "q23",
        "Query 23: bids with their bidder and what the bidder sells",
        KINDS,
        ("auction", "bidder", "price", "id", "category"),
        ("bid_dateTime", "auction_dateTime"),
        (
            _unbounded("q23", "all rows of the three inputs, and the pairs"),
            Variant("q23-delta", "delta join", spark=False, arranged=("auctions", "persons", "bids")),
            # Spark rejects the chain: the first join has two event-time columns.
            Variant("q23-bounded", f"chain, {_OF_GENERATOR}", spark=False),
        ),
        "q23",
    ),
)
BY_VARIANT = {variant.file: (query, variant) for query in ALL for variant in query.variants}


def text(file: str, setting: Setting) -> str:
    """Return the SQL of a file, for a setting."""
    span = setting.file_events * 1000 // setting.rate
    return Template((FILES / f"{file}.sql").read_text()).substitute(
        lifetime=setting.lifetime_ms,
        lead=setting.lead_ms,
        reach=setting.reach_ms,
        active=setting.active_ms,
        # Persons arrive up to a file after the auctions that name them.
        rematch=setting.lead_ms + 2 * span + DELAY_MS,
    )


_MODULUS = 1_000_000_007
_FACTORS = (7919, 104_729, 1_299_709, 611_953, 350_377, 15_485, 27_644)


def checksum(query: Query, millis: str) -> str:
    """Return SQL of a number that depends on all numbers and times of a result row, for Spark and DuckDB.

    Args:
        query: whose result it is.
        millis: the engine's function from a time to the milliseconds since 1970.
    """
    values = [*query.numbers, *(f"{millis}({time})" for time in query.times)]
    terms = [f"({value} % {_MODULUS}) * {factor}" for value, factor in zip(values, _FACTORS, strict=False)]
    return f"({' + '.join(terms)}) % {_MODULUS}"


def answer(query: Query, setting: Setting, inputs: Path) -> str:
    """Return DuckDB's SQL of a query over the files of its inputs, without their closing rows."""
    views = [f"{kind} AS (FROM '{inputs}/{kind}/*.parquet' WHERE dateTime < {FAR})" for kind in KINDS]
    views.append(f"side AS (FROM '{inputs}/side/*.parquet')")
    return f"WITH {', '.join(views)} {text(query.answer, setting)}"


def expected(query: Query, setting: Setting, inputs: Path) -> list[int]:
    """Return how many rows DuckDB's answer has, and the sum of their checksums; computed once for the same files."""
    file = inputs / f"expected-{query.name}.json"
    if not file.exists():
        total = f"SELECT count(*), coalesce(sum({checksum(query, 'epoch_ms')}), 0)"
        with connect() as db:
            row: tuple[Any, ...] | None = db.execute(f"{total} FROM ({answer(query, setting, inputs)})").fetchone()
        assert row is not None
        file.write_text(json.dumps([int(number) for number in row]))
    numbers: list[int] = json.loads(file.read_text())
    return numbers
