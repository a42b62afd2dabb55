"""Train with dynamic profiling while the job changes the file. usage: dynamic_monitor.py model|loop NAMES

NAMES is the package whose class the job uses, "mindspore.profiler" or "ms_profiler". At first, the file requests steps
2 to 3. After the sixth step the file requests steps 9 to 12. After step 13 it requests steps 5 to 6, which is too late.
The profiler reads the file once a second. The job waits for that after each change.
"""

import importlib
import json
import pathlib
import sys
import time

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn

way, names = sys.argv[1:]
FILE = pathlib.Path("configured/profiler_config.json")


def ask(start, stop, **more):
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps({"start_step": start, "stop_step": stop, **more}))


def change(step):
    """Request other steps after steps 6 and 13, and wait until the profiler reads the file again."""
    if step == 6:
        ask(9, 12, analyse_mode=0, record_shapes=True, aic_metrics=0)
    elif step == 13:
        ask(5, 6)
    else:
        return
    time.sleep(1.1)


class Change(ms.Callback):
    def on_train_step_end(self, run_context):
        change(run_context.original_args().cur_step_num)


ms.set_seed(3)
ms.set_device("CPU")
ask(2, 3, analyse_mode=0)
monitor = importlib.import_module(names).DynamicProfilerMonitor("configured", output_path="own", poll_interval=1)
net = nn.Dense(2, 2)
optimizer = nn.SGD(net.trainable_params(), 0.01)
data = np.ones([15, 2, 2], np.float32)
if way == "model":
    pipeline = ds.NumpySlicesDataset({"data": data, "label": np.ones([15, 2], np.float32)}, shuffle=False)
    ms.Model(net, nn.MSELoss(), optimizer).train(1, pipeline.batch(1), callbacks=[Change(), monitor])
else:
    gradient = ms.value_and_grad(lambda data: net(data).sum(), None, optimizer.parameters)
    for step in range(1, 16):
        _, gradients = gradient(ms.Tensor(data[step - 1]))
        optimizer(gradients)
        change(step)
        monitor.step()
print(net.weight.asnumpy().tobytes().hex())
