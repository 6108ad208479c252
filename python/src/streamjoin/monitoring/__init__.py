"""A query's batches as a report in one file, and live."""

from streamjoin._packaging import exports

__all__, __getattr__, __dir__ = exports.lazy_exports(__name__)
