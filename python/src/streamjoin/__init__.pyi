# What the package exports, each name once: __init__.py reads this list, and so do type checkers
# and editors.

from streamjoin._packaging.version import __version__ as __version__
from streamjoin.arrangements import Arrangement as Arrangement
from streamjoin.arrangements import Reader as Reader
from streamjoin.arrangements import Versions as Versions
from streamjoin.arrangements import arrange as arrange
from streamjoin.arrangements import arrangement as arrangement
from streamjoin.arrangements import table as table
from streamjoin.errors import Condition as Condition
from streamjoin.errors import StreamJoinError as StreamJoinError
from streamjoin.inspection import evolution as evolution
from streamjoin.inspection import explain_analyze as explain_analyze
from streamjoin.inspection import state as state
from streamjoin.inspection import why as why
from streamjoin.joins import NOW as NOW
from streamjoin.joins import JoinType as JoinType
from streamjoin.joins import StreamJoinType as StreamJoinType
from streamjoin.joins import VersionedStream as VersionedStream
from streamjoin.joins import asof_join as asof_join
from streamjoin.joins import delta_join as delta_join
from streamjoin.joins import join as join
from streamjoin.joins import temporal_join as temporal_join
from streamjoin.joins import versions as versions
from streamjoin.joins import window_join as window_join
from streamjoin.monitoring import Watch as Watch
from streamjoin.monitoring import report as report
from streamjoin.monitoring import watch as watch
from streamjoin.session import bounds as bounds
from streamjoin.session import check as check
from streamjoin.session import configure as configure
from streamjoin.session import late_rows as late_rows
from streamjoin.streams import idle_after as idle_after
from streamjoin.streams import impose_order as impose_order
from streamjoin.streams import with_bounds as with_bounds
from streamjoin.upserts import upsert as upsert
