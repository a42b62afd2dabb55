"""Train eight steps with batches of different sizes. usage: torch_shapes.py [FILE]

With FILE, torch.profiler records steps 2 to 4. FILE receives the names and shapes of their operators, in order.
"""

import json
import sys

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function


def step(number):
    x, y = torch.randn(4 + number, 1, 8, 8), torch.randint(3, (4 + number,))
    with record_function("forward"):
        output = torch.cat([model(x), model(x.flip(0))])
    loss = nn.functional.cross_entropy(output, torch.cat([y, y]))
    optimizer.zero_grad()
    loss.backward()
    print(loss.item().hex())  # a read in the middle of the step
    optimizer.step()


def seen(kept):
    operators = [
        (event.time_range.start, event.name, event.input_shapes)
        for event in kept.events()
        if not event.is_user_annotation
    ]
    return [(name, shapes) for _, name, shapes in sorted(operators, key=lambda operator: operator[0])]


torch.manual_seed(3)
torch.set_num_threads(1)
model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(72, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for number in range(2):
    step(number)
if sys.argv[1:]:
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as kept:
        for number in range(2, 5):
            step(number)
    with open(sys.argv[1], "w") as stream:
        json.dump(seen(kept), stream)
for number in range(5 if sys.argv[1:] else 2, 8):
    step(number)
