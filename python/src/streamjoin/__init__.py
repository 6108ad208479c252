"""Joins of streams with bounded state, for Apache Spark.

``configure`` adds the extension to a Spark session. A plain ``df.join`` of two streams with time bounds then runs on
streamjoin. ``check`` tests whether a session is ready, and says what to do if it is not.

Joins: ``join`` adds the bounds to the condition, and ``window_join`` also emits the output in the order of time.
``temporal_join`` joins each row of a stream with the version of a table that was valid at its time, as declared by
``versions``. ``asof_join`` joins each row with the closest row of another stream. ``impose_order``, ``with_bounds`` and
``idle_after`` control the watermark of a stream.

Arrangements: ``arrange`` keeps a collection with its indexes for many queries, ``arrangement`` reads one,
``delta_join`` joins them, and streams look up a ``table``. ``upsert`` keeps the current rows of changes in a table, a
database or a topic.

Inspection: ``bounds`` shows what joins keep in state, ``late_rows`` the rows that they dropped, and ``evolution`` what
a changed query means for its checkpoint. ``explain_analyze``, ``why``, ``state``, ``report`` and ``watch`` show what a
query does.
"""

from streamjoin._packaging import exports

__all__, __getattr__, __dir__ = exports.lazy_exports(__name__)
