"""Record COUNT spans of a training loop with the recorder: operators with autograd's numbers, and counters."""

import os
import struct
import sys

from ms_profiler.job.recorder.native import NativeRecorder
from ms_profiler.store import layout, run_info
from ms_profiler.store.format import Category, Kind, StepSource

STEP = 1_000_000
CALLS = 60

folder, count = sys.argv[1], int(sys.argv[2])
process = layout.process_dir(folder, os.getpid())
os.makedirs(process)
recorder = NativeRecorder()
recorder.open(process)
start = recorder.now()
intern, record = recorder.intern, recorder.record
forward, backward, net, held, source = map(intern, ("forward", "backward", "Net", "host memory", "script"))
linear, addmm, gradient = map(intern, ("aten::linear", "aten::addmm", "AddmmBackward0"))
steps = count // (4 * CALLS + 3)
for step in range(steps):
    begin = start + step * STEP
    record(Kind.SPAN, Category.FORWARD, 0, forward, begin, begin + STEP // 2, 0)
    record(Kind.SPAN, Category.MODULE, 0, net, begin, begin + STEP // 2 - 1, 0)
    for call in range(CALLS):
        at, number = begin + 10 + call * 8_000, step * CALLS + call + 1
        record(Kind.SPAN, Category.OP, 0, linear, at, at + 7_001 + step % 13, 0)
        record(Kind.SPAN, Category.OP, 0, addmm, at + 3, at + 5_000, 2 * number)
    record(Kind.SPAN, Category.BACKWARD, 0, backward, begin + STEP // 2, begin + STEP - 9, 0)
    for call in range(CALLS):
        at, number = begin + STEP // 2 + call * 8_000, (step + 1) * CALLS - call
        record(Kind.SPAN, Category.OP, 0, gradient, at, at + 7_000, 2 * number + 1)
        record(Kind.SPAN, Category.OP, 0, addmm, at + 1, at + 6_999 - step % 17, 0)
    bits = int.from_bytes(struct.pack("<d", 1e9 + step), "little")
    record(Kind.COUNTER, 0, 0, held, begin + STEP - 5, begin + STEP - 5, bits)
    record(Kind.STEP, StepSource.SCRIPT, 0, source, begin, begin + STEP, step)
recorder.close()
info = run_info.RunInfo(pid=os.getpid(), started_ns=start, framework={"name": "torch", "device": "CPU"})
run_info.write(layout.run_info_path(folder), info)
ended = run_info.ProcessInfo(
    pid=os.getpid(), recorder="native", state="ended", end="exit", ended_ns=start + steps * STEP
)
run_info.write(os.path.join(process, layout.PROCESS_INFO), ended)
