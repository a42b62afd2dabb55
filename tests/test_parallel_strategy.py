"""The way in which the framework divides a job among its ranks is written as JSON."""

import json

PROGRAM = """
import torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("data", "tensor"))
whole = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(whole.parameters(), lr=0.1)
for _ in range(4):
    whole(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
"""


def test_groups_and_meshes(job):
    run = job(PROGRAM, options={"parallel_strategy": True})
    assert run.code == 0, run.err
    strategy = json.loads((run.result / "ASCEND_PROFILER_OUTPUT" / "parallel_strategy.json").read_text())
    assert (strategy["framework"], strategy["rank"], strategy["world_size"]) == ("torch", 0, 1)
    assert all("gloo" in group["backend"] and group["ranks"] == [0] for group in strategy["groups"])
    assert strategy["groups"]
    whole = {"device": "cpu", "dimensions": ["data", "tensor"], "shape": [1, 1], "ranks": [[0]]}
    assert whole in strategy["meshes"]
    assert "parallel_strategy" not in {entry["what"] for entry in run.summary["not_collected"]}
