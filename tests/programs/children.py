"""Train, then fork children that train, four at a time, and end by os._exit. usage: children.py CHILDREN STEPS"""

import os
import sys

import torch

COUNT, STEPS = map(int, sys.argv[1:3])
torch.manual_seed(1)
model = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(4)])
optimizer = torch.optim.SGD(model.parameters(), 0.1)


def step():
    loss = model(torch.ones(2, 4)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return float(loss)


for _ in range(5):
    step()
sys.stdout.flush()
children = []
for number in range(COUNT):
    children.append(os.fork())
    if not children[-1]:
        for _ in range(STEPS):
            step()
        os._exit(number % 7)
    if number % 4 == 3:
        print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
        children.clear()
print(step().hex())
