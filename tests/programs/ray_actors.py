"""Run a job of Ray with two actors, a trainer and a generator, that both train; the driver imports the framework first.

usage: ray_actors.py [STEPS]
"""

import sys

import ray
import torch
from torch import nn


class Worker:
    """An actor that trains a network."""

    def train(self, steps):
        """Train for some steps, and return the id of the actor's process."""
        import os

        torch.set_num_threads(1)
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(steps):
            optimizer.zero_grad()
            model(torch.randn(32, 64)).sum().backward()
            optimizer.step()
        return os.getpid()


@ray.remote
class Trainer(Worker):
    """The actor that trains."""


@ray.remote
class Generator(Worker):
    """The actor that makes samples; it trains as well."""


def main(steps):
    """Run both actors at the same time, and print the ids of their processes."""
    ray.init(num_cpus=2, include_dashboard=False, logging_level="error", log_to_driver=False)
    actors = [Trainer.options(name="trainer-0").remote(), Generator.remote()]
    print("pids", *ray.get([actor.train.remote(steps) for actor in actors]))
    ray.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
