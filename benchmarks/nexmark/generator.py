"""Nexmark's events: the persons, auctions and bids of an auction house, the same on every machine.

The generator is our own and follows the published description. Event ``n`` is a person, an auction or a bid by
``n % 50`` (1, 3 and 46 of 50), and its time is ``start + n / rate``, in whole milliseconds. Everything else is drawn
from MD5 of the event's number. Of the quirks of the published generators, these are followed:

- Half of the bids go to one auction, the first of the latest block of 100; three quarters of the bids come from the
  second person of the latest block of 100, and three quarters of the auctions from the first one.
- All others go to any of the last ``in_flight`` auctions, or come from any of the last 1,000 persons, or of the ten
  that follow: a bid may be earlier than its auction, and an auction earlier than its seller.
- An auction is open for 1 ms to twice the time in which ``in_flight`` more auctions appear.

Not followed: parallel timelines (there is one generator), the random source without a seed, and the first person's
number that one port adds to each bidder twice, so that bidders and persons are 1,000 persons apart.
"""

import argparse
import hashlib
import math
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import duckdb

KINDS = ("person", "auction", "bid")
EVENTS_PER_ROUND, AUCTIONS_PER_ROUND = 50, 3
FIRST_ID = 1000
ACTIVE_PERSONS = 1000
LEAD = 10
CATEGORIES = (10, 5)
# The number of different keys of the side input of query 13.
SIDE_ROWS = 10_000

START = "TIMESTAMPTZ '2026-01-01 00:00:00+00'"
FAR = "TIMESTAMPTZ '2026-03-01 00:00:00+00'"
FIRST_FILE_TIME = 1_767_225_600  # seconds; any fixed moment, not "now": it must not make files differ


@dataclass(frozen=True)
class Setting:
    """The sizes of a run.

    Attributes:
        events: how many, of all kinds.
        rate: events for each second of event time.
        in_flight: how many auctions may be open; their lifetimes are in proportion to it.
        file_events: events whose rows are in one file of each kind.
        group: 1 for events in order; otherwise events change places within groups of so many.
    """

    events: int = 10_000_000
    rate: int = 10_000
    in_flight: int = 100
    file_events: int = 100_000
    group: int = 1

    def __post_init__(self) -> None:
        if self.group % 953 == 0:
            raise ValueError(f"group {self.group}: no multiple of 953, which orders the events of a group")
        if self.events % self.group or self.file_events % EVENTS_PER_ROUND:
            raise ValueError(f"events {self.events}: a multiple of group; file_events: one of {EVENTS_PER_ROUND}")

    @property
    def name(self) -> str:
        """A name that only identical settings share."""
        digest = hashlib.sha256(repr(sorted(asdict(self).items())).encode()).hexdigest()[:8]
        return f"{self.events}-{self.rate}-{self.in_flight}-{digest}"

    @property
    def files(self) -> int:
        """How many files each kind has, the closing one not counted."""
        return math.ceil(self.events / self.file_events)

    @property
    def lifetime_ms(self) -> int:
        """The longest time that an auction is open, milliseconds."""
        return max(1, 2 * self._horizon_ms)

    @property
    def reach_ms(self) -> int:
        """How much later than its auction a bid is at most, milliseconds."""
        return self._span_ms(max(self.in_flight, 99) // AUCTIONS_PER_ROUND + 2)

    @property
    def active_ms(self) -> int:
        """How much later than its bidder or seller a bid or an auction is at most, milliseconds."""
        return self._span_ms(ACTIVE_PERSONS + 1)

    @property
    def lead_ms(self) -> int:
        """How much earlier than its auction, its bidder or its seller a bid or an auction is at most, milliseconds."""
        return self._span_ms(LEAD + 2)

    @property
    def _horizon_ms(self) -> int:
        """The time in which so many more auctions open as are in flight, milliseconds."""
        return self.in_flight * EVENTS_PER_ROUND // AUCTIONS_PER_ROUND * 1000 // self.rate

    def _span_ms(self, rounds: int) -> int:
        return rounds * EVENTS_PER_ROUND * 1000 // self.rate + 1


def connect() -> duckdb.DuckDBPyConnection:
    """Return a connection with the macros of the generator."""
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    for macro in _MACROS.split(";\n"):
        db.execute(f"CREATE MACRO {macro}")
    return db


_MACROS = f"""
draw(n, seed, below) AS (md5_number_lower(concat('nexmark-', n, '-', seed)) % below)::BIGINT;
letters(n, seed, parts) AS array_to_string([md5(concat(n, '-', seed, '-', part)) for part in range(parts)], '');
last_person(n) AS n // {EVENTS_PER_ROUND};
last_auction(n) AS n // {EVENTS_PER_ROUND} * {AUCTIONS_PER_ROUND} + least(n % {EVENTS_PER_ROUND}, 3) - 1;
price(n, seed) AS round(pow(10, draw(n, seed, 1000000) / 1000000 * 6) * 100)::BIGINT;
hot(n, seed, ratio) AS draw(n, seed, ratio) > 0;
active(n) AS least(last_person(n) + 1, {ACTIVE_PERSONS});
any_person(n, seed) AS last_person(n) + 1 - active(n) + draw(n, seed, active(n) + {LEAD});
any_auction(n, seed, oldest) AS oldest + draw(n, seed, last_auction(n) - oldest + 1 + {LEAD})
""".strip()

# Text that fills a row to a size of 200, 500 and 100 bytes on average, give or take a fifth.
_EXTRA = {
    "person": "left(letters(n, 'extra', 5), 108 + draw(n, 'size', 50))",
    "auction": "left(letters(n, 'extra', 15), 270 + draw(n, 'size', 180))",
    "bid": "left(letters(n, 'extra', 1), 13 + draw(n, 'size', 16))",
}


def rows(setting: Setting, kind: str, first: int, until: int, more: str = "") -> str:
    """Return the SQL of the rows of one kind among the events with these places in the order of arrival.

    Args:
        setting: of the events.
        kind: which rows.
        first: the first place.
        until: the place after the last one.
        more: SQL of more columns, such as ``, place``, and ``, n`` for the event's number.
    """
    columns, of_round = _columns(setting)[kind]
    permuted = f"range // {setting.group} * {setting.group} + (range * 953) % {setting.group}"
    numbers = f"SELECT range AS place, {permuted} AS n FROM range({first}, {until})"
    return f"SELECT {columns}{more} FROM ({numbers}) WHERE n % {EVENTS_PER_ROUND} {of_round} ORDER BY place"


def _columns(setting: Setting) -> dict[str, tuple[str, str]]:
    """Return for each kind the SQL of its columns, and the condition on a number modulo the size of a round."""
    # Whole milliseconds, as in the published tables.
    time = f"{START} + to_milliseconds(n * 1000 // {setting.rate})"
    return {
        "person": (
            f"""{FIRST_ID} + last_person(n) AS id,
            ['Ada', 'Ben', 'Cleo', 'Dan', 'Eve', 'Finn', 'Gus', 'Hal', 'Ida', 'Jim', 'Kay'][draw(n, 'first', 11) + 1]
              || ' ' || ['Abel', 'Bond', 'Cole', 'Dean', 'Egan', 'Ford', 'Gray', 'Hill', 'Ives'][draw(n, 'last', 9) + 1]
              AS name,
            left(md5(n::VARCHAR), 7) || '@' || left(md5('at-' || n), 5) || '.com' AS emailAddress,
            lpad(draw(n, 'card', 10000000000000000)::VARCHAR, 16, '0') AS creditCard,
            ['Phoenix', 'Los Angeles', 'San Francisco', 'Boise', 'Portland', 'Seattle', 'Cheyenne'
              ][draw(n, 'city', 7) + 1] AS city,
            ['AZ', 'CA', 'ID', 'OR', 'WA', 'WY'][draw(n, 'state', 6) + 1] AS state,
            {time} AS dateTime, {_EXTRA["person"]} AS extra""",
            "= 0",
        ),
        "auction": (
            f"""{FIRST_ID} + last_auction(n) AS id, left(md5('item-' || n), 20) AS itemName,
            letters(n, 'description', 2) AS description, price(n, 'bid') AS initialBid,
            price(n, 'bid') + price(n, 'reserve') AS reserve, {time} AS dateTime,
            {time} + to_milliseconds(1 + draw(n, 'life', {setting.lifetime_ms})) AS expires,
            {FIRST_ID} + CASE WHEN hot(n, 'hot', 4) THEN last_person(n) // 100 * 100 ELSE any_person(n, 'seller') END
              AS seller,
            {CATEGORIES[0]} + draw(n, 'category', {CATEGORIES[1]}) AS category, {_EXTRA["auction"]} AS extra""",
            "BETWEEN 1 AND 3",
        ),
        "bid": (
            f"""{FIRST_ID} + CASE WHEN hot(n, 'hot', 2) THEN last_auction(n) // 100 * 100
              ELSE any_auction(n, 'auction', greatest(last_auction(n) - {setting.in_flight}, 0)) END AS auction,
            {FIRST_ID} + CASE WHEN hot(n, 'hot-bidder', 4) THEN last_person(n) // 100 * 100 + 1
              ELSE any_person(n, 'bidder') END AS bidder,
            price(n, 'price') AS price,
            CASE WHEN hot(n, 'hot-channel', 2) THEN 'hot-channel-' || draw(n, 'channel', 4)
              ELSE 'channel-' || draw(n, 'channel', 10000) END AS channel,
            'https://auctions.example/' || left(md5('url-' || n), 10) AS url,
            {time} AS dateTime, {_EXTRA["bid"]} AS extra""",
            "> 3",
        ),
    }


# One row of each kind, so far in the future that the watermarks pass everything else. They match
# nothing, nor each other.
CLOSING = {
    "person": f"""SELECT -1::BIGINT AS id, '' AS name, '' AS emailAddress, '' AS creditCard, '' AS city, '' AS state,
        {FAR} AS dateTime, '' AS extra""",
    "auction": f"""SELECT -2::BIGINT AS id, '' AS itemName, '' AS description, 0::BIGINT AS initialBid,
        0::BIGINT AS reserve, {FAR} AS dateTime, {FAR} AS expires, -3::BIGINT AS seller, 0::BIGINT AS category,
        '' AS extra""",
    "bid": f"""SELECT -4::BIGINT AS auction, -5::BIGINT AS bidder, 0::BIGINT AS price, '' AS channel, '' AS url,
        {FAR} AS dateTime, '' AS extra""",
}


def generate(setting: Setting, work: Path) -> Path:
    """Write the files of all kinds unless they exist, and return their folder.

    Each kind has a folder with a file for each ``file_events`` events, and one more with the closing row. The folder
    ``side`` has the side input of query 13.
    """
    folder = work / "inputs" / f"nexmark-{setting.name}"
    if folder.exists():
        return folder
    unfinished = folder.with_name(f"{folder.name}-unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    with connect() as db:
        for kind in KINDS:
            (unfinished / kind).mkdir(parents=True)
            for file in range(setting.files):
                first = file * setting.file_events
                until = min(first + setting.file_events, setting.events)
                _copy(db, rows(setting, kind, first, until), unfinished / kind, file)
            _copy(db, CLOSING[kind], unfinished / kind, setting.files)
        (unfinished / "side").mkdir()
        side = f"SELECT range AS key, md5('side-' || range) AS value FROM range({SIDE_ROWS})"
        _copy(db, side, unfinished / "side", 0)
    unfinished.rename(folder)
    return folder


def _copy(db: duckdb.DuckDBPyConnection, query: str, folder: Path, number: int) -> None:
    file = folder / f"{number:05}.parquet"
    db.execute(f"COPY ({query}) TO '{file}' (FORMAT parquet)")
    # Spark's file source reads files in the order of their times.
    os.utime(file, (FIRST_FILE_TIME + number, FIRST_FILE_TIME + number))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of a setting to a command line."""
    default = Setting()
    parser.add_argument("--events", type=int, default=default.events, help="of all kinds (default: %(default)s)")
    parser.add_argument("--rate", type=int, default=default.rate, help="events for each second of event time")
    parser.add_argument("--file-events", type=int, default=default.file_events, help="events of a file of each kind")
    parser.add_argument("--group", type=int, default=default.group, help="events change places in groups of so many")
