"""Train in steps that are rarely sampled, while signals arrive in Python code that our hooks might call.

The program prints the number of signals, and the number of exceptions of their handler that it got.
"""

import signal

import torch


def interrupt() -> bool:
    """Stand in for a function of PyTorch, and receive a signal meanwhile."""
    global sent
    sent += 1
    signal.raise_signal(signal.SIGINT)
    return False


sent = got = 0
torch.set_num_threads(1)
net = torch.nn.Sequential(*(torch.nn.Tanh() for _ in range(30)), torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
x = torch.rand(4)
for number in range(1000):
    if number == 500:
        torch.jit.is_scripting = interrupt
    try:
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()
    except KeyboardInterrupt:
        got += 1
print(sent, got)
