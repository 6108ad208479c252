"""Joins of streams with bounded state, for Apache Spark.

``configure`` adds the extension to a Spark session; from then on a plain ``df.join`` of two streams with time
bounds runs on its operator. ``join`` writes the bounds for you, ``window_join`` puts the output in the
order of time, ``bounds`` shows what they keep in state,
``late_rows`` what came too late for it, ``report`` and ``watch`` what a query does, and ``check`` says whether a
session is ready, and if not, what to do.
``arrange`` keeps a collection with its indexes for many queries, ``arrangement`` reads one, ``delta_join`` joins
them, and ``table`` is one that streams look up. ``temporal_join`` finds for each row of a stream what was valid at its
time, in ``versions`` of a table, and ``asof_join`` the row of another stream that is closest.
``upsert`` keeps the rows of changes in a table, a database or a topic.
``impose_order``, ``with_bounds`` and ``idle_after`` say of a stream how far it is.
"""

from streamjoin._packaging import exports

__all__, __getattr__, __dir__ = exports.lazy_exports(__name__)
