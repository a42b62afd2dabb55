"""Record in many threads that live at the same time, and once more after their end; print the size of their buffers.

argv: recorder, folder, number of threads, spans of each thread, limit of memory in bytes
"""

import os
import re
import sys
import threading
from pathlib import Path

from recorders import make

KIND, FOLDER = sys.argv[1:3]
THREADS, SPANS, MEMORY = map(int, sys.argv[3:])


def mapped():
    """Return the number of bytes of the store's segments that the process has mapped."""
    maps = Path("/proc/self/maps").read_text()
    places = re.findall(rf"^(\w+)-(\w+) .*{re.escape(FOLDER)}.*\.seg$", maps, re.MULTILINE)
    return sum(int(end, 16) - int(begin, 16) for begin, end in places)


recorder = make(KIND)
recorder.open(FOLDER, memory=MEMORY)
fine = recorder.intern("fine")
done, leave = threading.Barrier(THREADS + 1), threading.Event()


def work():
    for _ in range(SPANS):
        recorder.end(recorder.begin(fine, 0x41))
    done.wait()
    leave.wait()


workers = [threading.Thread(target=work) for _ in range(THREADS)]
for worker in workers:
    worker.start()
done.wait()
print(mapped())
recorder.end(recorder.begin(recorder.intern("step"), 1))
leave.set()
for worker in workers:
    worker.join()
stats = recorder.stats()
recorder.close()
print(os.getpid(), stats.records, stats.dropped, stats.dropped_limit, stats.failure)
