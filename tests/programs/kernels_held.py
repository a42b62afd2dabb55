"""Train the example; print the memory in bytes by which the process grows from step 10 to step 40.

usage: kernels_held.py EXAMPLE [anything]; with the second argument, the kernel recorder may hold 8 MB
"""

import runpy
import sys
from pathlib import Path

import mindspore as ms

held = []


class Look(ms.Callback):
    def on_train_step_end(self, run_context):
        if run_context.original_args().cur_step_num in (10, 40):
            fields = Path("/proc/self/statm").read_text().split()
            held.append((int(fields[1]) - int(fields[2])) * 4096)


if len(sys.argv) > 2:
    kernels = sys.modules["ms_profiler.job.frameworks.mindspore.kernels"]
    kernels.KERNEL_WINDOW_FIRST = kernels.KERNEL_WINDOW_MOST = 8 << 20
train = ms.Model.train
ms.Model.train = lambda self, *args, callbacks: train(self, *args, callbacks=[*callbacks, Look()])
example = sys.argv[1]
sys.argv = [example]
runpy.run_path(example, run_name="__main__")
print("held", held[1] - held[0])
