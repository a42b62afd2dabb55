"""Intern more texts than a process can hold: many short ones or large ones. argv: recorder, folder, many|large"""

import os
import sys

from recorders import make

kind, folder, texts = sys.argv[1:]
count, padding = (70_000, "") if texts == "many" else (2000, "x" * 8000)
recorder = make(kind)
for part in ("first", "second"):
    path = os.path.join(folder, part)
    os.mkdir(path)
    recorder.open(path)
    recorder.end(recorder.begin(recorder.intern("x"), 1))  # the thread's name takes space, too
    ids = [recorder.intern(f"{number} {padding}") for number in range(count)]
    assert recorder.begin(ids[-1], 1) and recorder.begin(ids[0], 1)
    assert recorder.intern(f"0 {padding}") == ids[0], "what is kept stays"
    recorder.close()
    stats = recorder.stats()
    kept = sum(name > 0 for name in ids)
    assert all(ids[:kept]) and not any(ids[kept:])
    size = sum(entry.stat().st_size for entry in os.scandir(path))
    print(kept, stats.unnamed, stats.dropped, size)
