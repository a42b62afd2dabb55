"""The recorder in pure Python: the same files under the same protocol, for machines where the extension does not load.

Some microseconds an event instead of a tenth of one. Signal handlers and finalizers may run between any two lines on
the thread that is recording: locks are re-entrant, and a slot is always taken before it is filled.
"""

import errno
import os
import threading
import weakref
from typing import Final

from ms_profiler.job.recorder.base import RecorderStats
from ms_profiler.job.recorder.cost import pair_cost
from ms_profiler.job.recorder.python_store import SLOTS_LEAST, SLOTS_MOST, PythonStore, Strings
from ms_profiler.job.recorder.python_writer import PythonWriter
from ms_profiler.job.recorder.segment_file import now_ns
from ms_profiler.store.format import CATEGORY_FINE, Flag, Kind

_EVENTS: Final = frozenset({Kind.SPAN, Kind.INSTANT, Kind.COUNTER, Kind.STEP})
