"""Files that safetensors saves and loads count as checkpoints, whatever the job imports first."""

import pytest
from events import events, of
from ms_profiler.store.format import Category

#: safetensors, reduced to what our hooks need; file -> text
SAFETENSORS = {
    "__init__.py": """
def serialize_file(tensors, path, metadata=None):
    with open(path, "w") as file:
        file.write(repr(tensors))
""",
    "torch.py": """
import torch
from safetensors import serialize_file


def save_file(tensors, path, metadata=None):
    serialize_file({name: tensor.tolist() for name, tensor in tensors.items()}, path, metadata=metadata)


def save_model(model, path):
    save_file(model.state_dict(), path)


def load_file(path):
    with open(path) as file:
        return {name: torch.tensor(values) for name, values in eval(file.read()).items()}
""",
}
TRAINING = """
from torch import nn

net = nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    net(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    if step % 2:
        save_file(net.state_dict(), "weights.safetensors", metadata={})
safetensors.torch.save_model(net, "weights.safetensors")
print(all(torch.equal(a, b) for a, b in zip(net.state_dict().values(), load_file("weights.safetensors").values())))
"""
IMPORTS = ("import torch\n", "import safetensors.torch\nfrom safetensors.torch import load_file, save_file\n")


@pytest.mark.parametrize("first", ["torch", pytest.param("safetensors", marks=pytest.mark.slow)])
def test_files_of_safetensors_are_checkpoints(job, tmp_path, first):
    (tmp_path / "safetensors").mkdir()
    for name, text in SAFETENSORS.items():
        (tmp_path / "safetensors" / name).write_text(text)
    imports = "".join(IMPORTS if first == "torch" else reversed(IMPORTS))
    environment = {"PYTHONPATH": str(tmp_path), "MS_PROFILER_RAISE": "1"}
    run = job(imports + TRAINING, options={"analyse": "off"}, env=environment)
    assert (run.code, run.out) == (0, "True\n"), run.err
    # if safetensors imports PyTorch, Python executes the module safetensors.torch before our hooks exist
    outer = {"safetensors: save": 3, "safetensors: load": 1} if first == "torch" else {}
    assert of(events(run.result), Category.CHECKPOINT) == {"safetensors: write": 3, **outer}
