"""Figures in the lines of Spark's event log, in plain and in compressed files."""

import contextlib
import io
import json
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from streamjoin._packaging.optional import import_optional

_EVENT = "org.apache.spark.sql.streamjoin.monitor.SparkListenerStreamJoinFigures"


def read_event_log(files: Iterable[Path], call: str) -> Iterator[str]:
    """Yield the figures in files of an event log, as JSON.

    Raises:
        StreamJoinError: ``STREAMJOIN_PACKAGE_MISSING`` if a file is compressed, and what reads it is not installed.
    """
    for file in files:
        with file.open("rb") as raw:
            for line in _lines(file, raw, call):
                # The whole log is large, and most of it is not ours.
                if _EVENT not in line:
                    continue
                with contextlib.suppress(ValueError, KeyError):
                    event = json.loads(line)
                    if event["Event"] == _EVENT:
                        yield event["figures"]


def _lines(file: Path, raw: BinaryIO, call: str) -> Iterator[str]:
    """Yield the lines of a file, read as the suffix of its name says; a running application has one more suffix."""
    name = file.name.removesuffix(".inprogress").removesuffix(".compact")
    if name.endswith((".zstd", ".zst")):
        library = import_optional("zstandard", "zstandard", f"{call} of an event log that zstd has compressed")
        stream = library.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
    elif name.endswith(".lz4"):
        block = import_optional("lz4.block", "lz4", f"{call} of an event log that lz4 has compressed")
        stream = io.BytesIO(b"".join(_lz4_blocks(raw, block.decompress)))
    else:
        stream = raw
    yield from io.TextIOWrapper(cast(io.BufferedReader, stream), encoding="utf-8", errors="replace")


def _lz4_blocks(raw: BinaryIO, decompress: Callable[..., bytes]) -> Iterator[bytes]:
    """Yield the blocks of lz4-java's ``LZ4BlockOutputStream``, which Spark uses; the format has no other name.

    Each has a header of 21 bytes: ``LZ4Block``, a byte whose upper half is the method (1 plain, 2 compressed), both
    lengths and a checksum. A file that is being written may end within one.
    """
    while len(head := raw.read(21)) == 21 and head.startswith(b"LZ4Block"):
        method, length, size = struct.unpack_from("<Bii", head, 8)
        block = raw.read(length)
        if len(block) < length:
            return
        if size > 0:
            yield block if method >> 4 == 1 else decompress(block, uncompressed_size=size)
