"""PyTorch is hooked correctly in the middle of a script, and so are libraries that are imported later."""

import sys
import types

import pytest
from conftest import PROGRAMS
from events import events, inside, named, of, steps
from ms_profiler.job.frameworks.torch.plugin import PyTorch
from ms_profiler.store.format import Category, Kind, StepSource


def test_an_npu_that_it_uses_is_named_as_mindspore_names_it(monkeypatch):
    device = types.SimpleNamespace(is_initialized=lambda: True)
    idle = types.SimpleNamespace(is_initialized=lambda: False)
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=idle, npu=device))
    assert PyTorch().describe()["device"] == "Ascend"


#: the training loops of two libraries, reduced to what our hooks need; file -> text
LIBRARIES = {
    "transformers/trainer_callback.py": """
class CallbackHandler:
    def on_step_end(self):
        pass
""",
    "transformers/trainer.py": """
from transformers.trainer_callback import CallbackHandler


class Trainer:
    def __init__(self, step, evaluate):
        self.step, self.evaluate, self.handler = step, evaluate, CallbackHandler()

    def _inner_training_loop(self):
        for number in range(4):
            self.step()
            self.handler.on_step_end()
            if number == 1:
                self.evaluation_loop()

    def evaluation_loop(self):
        self.evaluate()
""",
    "lightning/pytorch/loops/evaluation_loop.py": """
class _EvaluationLoop:
    def run(self, evaluate):
        evaluate()
""",
    "lightning/pytorch/loops/training_epoch_loop.py": """
class _TrainingEpochLoop:
    batch = 0

    def advance(self, step):
        self.batch += 1
        step(self.batch % 2 == 0)

    def _should_accumulate(self):
        return self.batch % 2
""",
    "lightning/pytorch/loops/fit_loop.py": """
from lightning.pytorch.loops.evaluation_loop import _EvaluationLoop
from lightning.pytorch.loops.training_epoch_loop import _TrainingEpochLoop


class _FitLoop:
    def run(self, step, evaluate):
        epoch = _TrainingEpochLoop()
        for number in range(6):
            epoch.advance(step)
            if number == 3:
                _EvaluationLoop().run(evaluate)
""",
}
LOOP = """
import torch
from torch import nn
net = nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

def evaluate():
    for _ in range(3):
        net(torch.ones(2, 4))

def step(updates=True):
    net(torch.ones(2, 4)).sum().backward()
    if updates:
        optimizer.step()

from transformers.trainer import Trainer
from lightning.pytorch.loops.fit_loop import _FitLoop
Trainer(step, evaluate)._inner_training_loop()
_FitLoop().run(step, evaluate)
"""


@pytest.mark.slow
def test_hooks_in_the_middle_of_a_script(job, tmp_path):
    run = job(PROGRAMS / "torch_late.py", "own", profile=False, env={"MS_PROFILER_RAISE": "1"})
    assert run.code == 0, run.err
    read, pickled, found_ours, losses, undone, left = run.out.splitlines()
    assert (read, found_ours) == ("True 1 1 [1.0, 1.0]", "True")
    assert pickled == f"{[True] * 6} False"
    # each of the two networks is one graph
    assert losses.endswith('{"calls_captured": 4, "unique_graphs": 2}, 0]')
    assert (undone, left) == ("{'__call__': True, '_wrapped_call_impl': True} False", "0")

    (result,) = (tmp_path / "own").glob("*_ascend_ms")
    found = events(result)
    reads = ("__float__", "__bool__", "__int__", "__index__", "item", "tolist")
    assert of(found, Category.SYNC) == {f"Tensor.{name}": 1 for name in reads}
    # a copy to the tensor's own device, or to another type, is not a copy to the device
    assert [(event.name, event.arg) for event in found if event.category == Category.DATA] == [
        ("copy to the device", 3 * 4)
    ]
    # the optimizer was made before the recording began, and the scheduler had wrapped its step
    assert of(found, Category.OPTIMIZER) == {"zero_grad": 1, "SGD.step": 1, "learning rate": 1}
    assert of(found, Category.BACKWARD) == {"backward": 1}
    assert of(found, Category.MODULE) == {"OptimizedModule": 2}
    compiled = [event.name for event in found if event.category == Category.COMPILE and event.kind == Kind.SPAN]
    assert compiled == ["compile Sequential"]


@pytest.mark.slow
def test_loops_of_libraries_that_are_imported_later(job, tmp_path):
    for name, text in LIBRARIES.items():
        folder = (tmp_path / name).parent
        folder.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
        # the made-up packages come before the real libraries, if these are installed
        for package in [folder, *folder.parents]:
            if package.is_relative_to(tmp_path) and package != tmp_path:
                (package / "__init__.py").touch()
    environment = {"PYTHONPATH": str(tmp_path), "MS_PROFILER_RAISE": "1"}
    run = job(LOOP, options={"analyse": "off"}, env=environment)
    assert run.code == 0, run.err
    found = events(run.result)
    assert {StepSource(step.category) for step in steps(found)} == {StepSource.FRAMEWORK_LOOP}
    # the first loop has four steps of one batch, the second has three steps of two; evaluations are in no step
    assert [sum(inside(call, [step]) for call in named(found, "forward")) for step in steps(found)] == [1] * 4 + [2] * 3
    assert of(found, Category.RUN) == {"Trainer.train": 1, "Trainer.fit": 1}
    assert of(found, Category.EVALUATION) == {"Trainer.evaluate": 1, "Trainer.validate": 1}
