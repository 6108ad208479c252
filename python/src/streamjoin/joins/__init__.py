"""The joins, a module for each."""

from streamjoin._arguments.join_types import JoinType as JoinType
from streamjoin._arguments.join_types import StreamJoinType as StreamJoinType
from streamjoin.joins.asof import asof_join as asof_join
from streamjoin.joins.delta import delta_join as delta_join
from streamjoin.joins.interval import join as join
from streamjoin.joins.temporal import NOW as NOW
from streamjoin.joins.temporal import VersionedStream as VersionedStream
from streamjoin.joins.temporal import temporal_join as temporal_join
from streamjoin.joins.temporal import versions as versions
from streamjoin.joins.window import window_join as window_join
