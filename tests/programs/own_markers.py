"""Set markers of moments and ranges in two domains. usage: own_markers.py NAMES

NAMES is the package whose functions the program uses, "mindspore.profiler" or "ms_profiler".
"""

import importlib
import sys

import mindspore as ms
import numpy as np
from mindspore import nn

profiling = importlib.import_module(sys.argv[1])
mstx = profiling.mstx
ms.set_device("CPU")
net = nn.Dense(2, 2)


def work():
    mstx.mark("moment")
    mstx.mark("moment", None, "mine")
    outer = mstx.range_start("outer")
    inner = mstx.range_start("inner", domain="mine")
    net(ms.Tensor(np.ones([2, 2], np.float32))).asnumpy()
    mstx.range_end(inner, domain="mine")
    mstx.range_end(outer)
    mstx.range_end(outer)  # a second end of the same range must have no effect


work()
for include, exclude in (([], []), (["mine"], []), ([], ["mine"])):
    config = profiling._ExperimentalConfig(
        mstx=True, mstx_domain_include=include or None, mstx_domain_exclude=exclude or None
    )
    handler = profiling.tensorboard_trace_handler(f"own_{''.join(include)}_{''.join(exclude)}")
    with profiling.profile(experimental_config=config, on_trace_ready=handler):
        work()
