"""Record a short span after a quiet time, many times. argv: recorder, folder"""

import os
import sys
import time

from recorders import make

recorder = make(sys.argv[1])
recorder.open(sys.argv[2])
name = recorder.intern("short")
for _ in range(20):
    time.sleep(0.002)
    recorder.end(recorder.begin(name, 1))
recorder.close()
print(os.getpid())
