"""Record, close every descriptor, and open the job's own files under the same numbers. argv: recorder, folder"""

import os
import sys

from recorders import make

recorder = make(sys.argv[1])
recorder.open(sys.argv[2], first_slots=8)
name = recorder.intern("x")
for _ in range(100):
    recorder.end(recorder.begin(name, 1))
os.closerange(3, 1024)
mine = [os.open(sys.argv[2], os.O_RDWR | os.O_TMPFILE) for _ in range(20)]
for number in range(19_900):
    recorder.end(recorder.begin(name, 1))
    recorder.intern(f"string {number}")
recorder.close()
assert all(os.fstat(file).st_size == 0 for file in mine)
print(os.getpid())
