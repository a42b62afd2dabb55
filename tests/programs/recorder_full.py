"""Record until the disk is full, and go on recording. argv: recorder, folder, file whose removal makes room

Before, threads that live at the same time record a little each. So the recorder has their unused rests when the disk is
full. The program waits for the helper thread again and again: a segment in reserve that this thread makes later would
leave a gap in the records.
"""

import errno
import os
import resource
import signal
import sys
import threading
import time

from recorders import make

kind, folder, filler = sys.argv[1:]
THREADS = 12
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores this signal, but a job may not
if not filler:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
recorder = make(kind)
recorder.open(folder, first_slots=64)
name = recorder.intern("x")
started = threading.Barrier(THREADS)


def record_one():
    recorder.end(recorder.begin(recorder.intern("of a thread"), 1))
    started.wait()


threads = [threading.Thread(target=record_one) for _ in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for number in range(20_000):
    recorder.end(recorder.begin(name, 1, number))
    if number % 32 == 0:
        assert recorder.answers(30)
    if number % 10 == 0:
        recorder.intern(f"string {number}")
assert recorder.stats().failure == (errno.ENOSPC if filler else errno.EFBIG)
if filler:
    os.unlink(filler)
    deadline = time.monotonic() + 30
    # The disk may be tried again between the two calls. Without a name, the span would be recorded, but unnamed.
    while not (name := recorder.intern("after the disk was freed")) or not recorder.begin(name, 1):
        assert time.monotonic() < deadline
        time.sleep(0.05)
recorder.close()
stats = recorder.stats()
print(os.getpid(), stats.records, stats.dropped)
