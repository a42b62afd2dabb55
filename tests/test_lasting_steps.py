"""Hooks keep the process's one `Steps` object, so their reports count in a fork child as well."""

from events import events, steps
from ms_profiler.store.format import StepSource

TRAINER = """
class Trainer:
    def __init__(self, handler, work):
        self.handler, self.work = handler, work

    def _inner_training_loop(self):
        for _ in range(4):
            self.work()
            self.handler.on_step_end()

    def evaluation_loop(self):
        return 0
"""
CALLBACKS = """
class CallbackHandler:
    def on_step_end(self):
        return None
"""
JOB = """
import os, sys
sys.path.insert(0, "packages")
import torch
from transformers.trainer_callback import CallbackHandler
from transformers.trainer import Trainer

model = torch.nn.Linear(4, 4)
def work():
    model(torch.ones(2, 4))
    model(torch.ones(2, 4)).sum().backward()

def train():
    Trainer(CallbackHandler(), work)._inner_training_loop()

train()
child = os.fork()
if not child:
    train()
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_loop_in_a_fork_child_records_its_steps(job, tmp_path):
    package = tmp_path / "packages" / "transformers"
    package.mkdir(parents=True)
    for name, text in (("__init__", ""), ("trainer", TRAINER), ("trainer_callback", CALLBACKS)):
        (package / f"{name}.py").write_text(text)
    run = job(JOB, options={"quiet": True})
    assert (run.code, run.out) == (0, "7\n"), run.err
    found = {}
    for step in steps(events(run.result)):
        found.setdefault(step.process, []).append((step.arg, StepSource(step.category)))
    assert sorted(map(len, found.values())) == [4, 4], found
    assert all(each == [(n, StepSource.FRAMEWORK_LOOP) for n in range(4)] for each in found.values()), found
