"""Train with several profilers: two that overlap, one that an error ends, and one that nothing ends."""

import mindspore as ms
import numpy as np
from mindspore import nn
from mindspore.profiler import profile, tensorboard_trace_handler

ms.set_device("CPU")
net = nn.Dense(4, 4)
optimizer = nn.SGD(net.trainable_params(), 0.1)
gradient = ms.value_and_grad(lambda x: net(x).sum(), None, optimizer.parameters)
x = ms.Tensor(np.ones((2, 4), np.float32))


def step():
    loss, gradients = gradient(x)
    optimizer(gradients)
    loss.asnumpy()


early = profile(start_profile=False, on_trace_ready=tensorboard_trace_handler("early"))
late = profile(start_profile=False, on_trace_ready=tensorboard_trace_handler("late"))
for number in range(12):
    if number == 2:
        early.start()
    if number == 4:
        late.start()
    step()
    if number == 6:
        early.stop()
    if number == 9:
        late.stop()
try:
    with profile(on_trace_ready=tensorboard_trace_handler("error")):
        step()
        step()
        raise ValueError("of the job")
except ValueError as error:
    print("passed on:", error)
never = profile(on_trace_ready=tensorboard_trace_handler("never"))
step()
