"""Record spans by the extension, fork while its thread runs, and check the stored spans. usage: record.py FOLDER"""

import os
import sys
import warnings

from ms_profiler.job.recorder import create
from ms_profiler.job.recorder.python import PythonRecorder
from store_check import read_store

folder = sys.argv[1]
recorder, reason = create()
assert (recorder.kind, reason) == ("native", ""), reason
recorder.open(folder)
name = recorder.intern("x")
for number in range(100_000):
    recorder.end(recorder.begin(name, 1, number))
with warnings.catch_warnings(record=True) as seen:  # from CPython 3.12 on, Python warns of a fork while threads run
    warnings.simplefilter("always")
    child = os.fork()
    if not child:
        os._exit(0)
os.waitpid(child, 0)
assert not seen, seen[0].message
recorder.close()
assert [span.arg for span in read_store(folder).spans("x")] == list(range(100_000))
own, plain = round(recorder.span_cost()), round(PythonRecorder().span_cost())
print(f"CPython {sys.version.split()[0]}: 100000 spans, {own} ns each; in Python {plain} ns")
