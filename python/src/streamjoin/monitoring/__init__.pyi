# What the package exports, each name once: __init__.py reads this list, and so do type checkers.

from streamjoin.monitoring.live import Watch as Watch
from streamjoin.monitoring.live import watch as watch
from streamjoin.monitoring.reports import report as report
