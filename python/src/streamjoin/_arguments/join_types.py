"""The types of joins, in all of Spark's spellings."""

import re
from collections.abc import Sequence
from typing import Literal

from streamjoin.errors import StreamJoinError

JoinType = Literal[
    "inner",
    "left",
    "leftouter",
    "left_outer",
    "right",
    "rightouter",
    "right_outer",
    "full",
    "outer",
    "fullouter",
    "full_outer",
    "semi",
    "leftsemi",
    "left_semi",
    "anti",
    "leftanti",
    "left_anti",
]
"""The six join types as Spark spells them. Case, blanks and ``_`` do not count: ``LEFT OUTER`` is one, too."""

StreamJoinType = Literal["inner", "left", "leftouter", "left_outer"]
"""The types of a join in which each row of the left stream has one match, or none; spelled as :data:`JoinType`."""

_SPELLINGS = {
    "inner": ("inner",),
    "left": ("left", "leftouter"),
    "right": ("right", "rightouter"),
    "full": ("full", "outer", "fullouter"),
    "left_semi": ("semi", "leftsemi"),
    "left_anti": ("anti", "leftanti"),
}
_TYPES = {spelling: name for name, spellings in _SPELLINGS.items() for spelling in spellings}


def parse_join_type(how: object, allowed: Sequence[str] = tuple(_SPELLINGS)) -> str:
    """Return a join type as ``inner``, ``left``, ``right``, ``full``, ``left_semi`` or ``left_anti``.

    Args:
        how: One of Spark's spellings, in any case; as in Spark's ``JoinType``, ``_`` and blanks are ignored.
        allowed: The types that a function takes.

    Raises:
        StreamJoinError: ``STREAMJOIN_JOIN_TYPE``.

    Example:
        >>> parse_join_type("LEFT OUTER"), parse_join_type("leftsemi"), parse_join_type("Full")
        ('left', 'left_semi', 'full')
    """
    found = _TYPES.get(re.sub(r"[\s_]", "", how).lower()) if isinstance(how, str) else None
    if found is None or found not in allowed:
        types = f"{', '.join(allowed)}, in any of Spark's spellings, such as left_outer or LEFT OUTER"
        raise StreamJoinError("STREAMJOIN_JOIN_TYPE", how=repr(how), types=types)
    return found
