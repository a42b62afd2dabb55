"""Record many spans; print the largest growth of the resident memory in bytes. argv: recorder, folder, spans"""

import os
import sys

from recorders import make


def resident():
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * os.sysconf("SC_PAGESIZE")


recorder = make(sys.argv[1])
recorder.open(sys.argv[2])
begin, end, name = recorder.begin, recorder.end, recorder.intern("x")
before, growth = resident(), 0
for _ in range(int(sys.argv[3]) // 1000):
    outer = begin(name, 1)
    for _ in range(1000):
        end(begin(name, 1))
    end(outer)
    growth = max(growth, resident() - before)
recorder.close()
print(growth)
