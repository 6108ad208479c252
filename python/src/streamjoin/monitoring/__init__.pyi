from streamjoin.monitoring.reports import Watch as Watch
from streamjoin.monitoring.reports import report as report
from streamjoin.monitoring.reports import watch as watch
