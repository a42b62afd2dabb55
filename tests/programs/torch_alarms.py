"""Train while a timer interrupts the steps: its handler raises an exception, and the job goes on with the next step.

usage: torch_alarms.py SIGNALS
"""

import signal
import sys

import torch


class Alarm(BaseException):
    pass


def interrupt(*_):
    global raised
    raised += 1
    raise Alarm


torch.manual_seed(0)
model = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(4)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
batch = torch.ones(4, 16)
raised = caught = 0
signal.signal(signal.SIGALRM, interrupt)
for number in range(int(sys.argv[1])):
    try:
        # each interval is another one, so that the exceptions come in all places of a step
        signal.setitimer(signal.ITIMER_REAL, 0.0003 + number % 50 * 0.0001)
        while True:
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()
    except Alarm:
        caught += 1
        torch.set_grad_enabled(True)
print(raised, caught)
