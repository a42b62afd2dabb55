"""Record until the process is killed, and report each span on stdout when it has ended.

argv: recorder, folder, threads
"""

import os
import sys
import threading

from recorders import make

recorder = make(sys.argv[1])
recorder.open(sys.argv[2], first_slots=64)


def work(thread):
    name = recorder.intern(f"thread {thread}")
    number = 0
    while True:
        outer = recorder.begin(name, 1, number)
        recorder.end(recorder.begin(recorder.intern(f"string {thread} {number // 50}"), 2, number))
        recorder.end(outer)
        os.write(1, b"%d %d\n" % (thread, number))
        number += 1


for thread in range(1, int(sys.argv[3])):
    threading.Thread(target=work, args=(thread,), daemon=True).start()
work(0)
