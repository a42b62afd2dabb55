"""Intern names when a segment in reserve has the last room of a disk. argv: recorder, folder, file to fill the disk"""

import os
import sys
from contextlib import suppress
from pathlib import Path

from recorders import make, poll

kind, folder, filler = sys.argv[1:]
SLOTS = 2048
recorder = make(kind)
recorder.open(folder, first_slots=SLOTS)
recorder.end(recorder.begin(recorder.intern("x"), 1))
poll(lambda: any(path.stat().st_size > 2 * SLOTS * 32 for path in Path(folder).iterdir()))
assert recorder.answers(30), "the helper thread makes the segment in reserve, and answers afterwards"
with suppress(OSError), open(filler, "wb", buffering=0) as file:
    while True:
        file.write(bytes(4096))
named = sum(recorder.intern(f"name {number}") != 0 for number in range(2500))
failure = recorder.stats().failure
recorder.close()
print(os.getpid(), named, failure)
