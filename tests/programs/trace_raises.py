"""A trace function and a profile function raise at their first, second, third, ... event of a training step.

Python calls them for functions of ms-profiler, too. Each exception has to reach the script.
"""

import sys

import torch

model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batch = torch.randn(4, 8)


def step():
    optimizer.zero_grad()
    model(batch).pow(2).mean().backward()
    optimizer.step()


def lost(switch, limit):
    """Return the place at which the function raised if the exception did not arrive, and whether it raised at all."""
    left, place, raised = limit, None, False

    def limited(*passed):
        nonlocal left, place, raised
        frame, event, _ = passed
        left -= 1
        if left == 0:
            if frame.f_code.co_name != "<genexpr>":  # Python prints what is raised while a generator is closed
                place = f"{frame.f_code.co_name}:{frame.f_lineno} {event}"
            raised = True
            raise TimeoutError
        return limited

    switch(limited)
    try:
        step()
    except TimeoutError:
        return None, True
    finally:
        left = 0
        switch(None)
        torch.set_grad_enabled(True)
    return place, raised


for _ in range(20):
    step()
for switch in (sys.settrace, sys.setprofile):
    places, limit, raised = [], 1, True
    while raised:
        place, raised = lost(switch, limit)
        places += [place] if place else []
        limit += 1
        step()
    print(switch.__name__, limit > 100, places)
