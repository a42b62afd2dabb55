"""With `anonymize`, no byte of a result contains a name of the host, of a path or of the job, and all else is there."""

import json
import os
import re
import subprocess
import sys

import pytest
from conftest import environment
from fakes_built import build_one
from ms_profiler.store import anonymous
from unharmed import training

CANARY = "canary"
#: program that gives everything that a job can name a name with the canary
PROGRAM = """
import sys; sys.path.insert(0, os.getcwd())
from torch.utils.data import DataLoader, Dataset
import canary_package
class CanaryData(Dataset):
    def __len__(self): return 8
    def __getitem__(self, index): return torch.ones(4)
class CanaryLayer(torch.nn.Linear): pass
class CanaryGradient(torch.autograd.Function):
    @staticmethod
    def forward(context, x): return x * 1
    @staticmethod
    def backward(context, gradient): return gradient
class CanaryNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.canary_first = CanaryLayer(4, 8)
        self.canary_second = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(8, 4))
    def forward(self, x): return CanaryGradient.apply(self.canary_second(self.canary_first(x)))
class CanaryOptimizer(torch.optim.SGD): pass
model = CanaryNet()
optimizer = CanaryOptimizer(model.parameters(), 0.1)
@torch.compile(backend="eager")
def canary_compiled(x, flag): return x + flag
def canary_work():
    for batch in DataLoader(CanaryData(), 2, num_workers=2):
        with torch.profiler.record_function("canary region"): canary_package.canary_call(step)
for flag in (1, 2.5): canary_compiled(torch.ones(2), flag)
for _ in range(5): canary_work()
thread = threading.Thread(target=canary_work, name="canary thread"); thread.start(); thread.join()
import multiprocessing
if __name__ == "__main__":
    child = multiprocessing.get_context("fork").Process(target=canary_work, name="canary process")
    child.start(); child.join()
"""
SLOW = pytest.mark.slow
WITHOUT_EXTENSION = "sys.modules['ms_profiler._native'] = None"
OPTIONS = {
    "start": True,
    "anonymize": True,
    "analyse": "sync",
    "with_stack": True,
    "profile_memory": True,
    "record_shapes": True,
    "report": True,
    "parallel_strategy": True,
    "overhead_budget": 0,
    "host_sys": ["cpu", "mem", "disk", "network"],
    "stack_exclude": ["canary_elsewhere"],
    "mstx_domain_include": ["canary_domain"],
    "mstx": True,
    "export_type": ["text", "db", "kineto"],
    "wrong_canary": 1,
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Return a function that runs the program, in which every name contains the canary, and returns its result."""
    host = build_one(tmp_path_factory.mktemp("host"), "libhostname.so", ("hostname.c",))

    def run(before="", **options):
        folder = tmp_path_factory.mktemp("job") / "canary_user" / "canary_project"
        folder.mkdir(parents=True)
        (folder / "canary_package.py").write_text("def canary_call(f): return f()\n")
        (folder / "canary_script.py").write_text(training(PROGRAM, before))
        names = {
            "HOME": str(folder.parent),
            "USER": "canary_user",
            "LOGNAME": "canary_user",
            "FAKE_HOST": "canary-host",
        }
        variables = environment(OPTIONS | {"output_path": str(folder / "canary_data")} | options, **names)
        done = subprocess.run(
            [sys.executable, str(folder / "canary_script.py")],
            env=variables | {"LD_PRELOAD": str(host)},
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "failed" not in done.stderr and "Traceback" not in done.stderr, done.stderr
        (result,) = (folder / "canary_data").iterdir()
        subprocess.run(
            [sys.executable, "-m", "ms_profiler", "analyse", "--export=parquet", str(result)],
            env=environment(LD_PRELOAD=str(host), FAKE_HOST="canary-host"),
            capture_output=True,
            check=True,
        )
        return result

    return run


def found(result):
    """Return the files below a result whose content or name contains the canary."""
    files = [path for path in result.rglob("*") if path.is_file()]
    assert len(files) > 20
    named = [path for path in result.rglob("*") if CANARY in path.name.lower()]
    return named + [path for path in files if CANARY.encode() in path.read_bytes().lower()]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["traced", "sampled", "python"])
def test_no_byte_names_the_job(recorded, form):
    result = recorded(WITHOUT_EXTENSION if form == "python" else "", with_stack=True if form == "traced" else "sample")
    assert CANARY not in result.name and found(result) == []
    summary = json.loads((result / "summary.json").read_text())
    assert summary["steps"]["count"] >= 20
    names = {item["name"]: item["count"] for item in summary["modules"]}
    root = anonymous.word("CanaryNet")
    assert names[root] >= 20 and f"{root}.{anonymous.word('canary_first')}" in names
    assert re.fullmatch(r"m[0-9a-f]{10}", root)
    assert summary["run"]["processes"][0]["state"] == "exit"


@SLOW
def test_otherwise_the_names_are_there(recorded):
    """Without `anonymize`, the result contains the names, so the other tests would find them."""
    result = recorded(anonymize=False)
    assert CANARY in result.name and len(found(result)) > 10


def test_words_of_ours_stay_and_all_others_have_one_replacement():
    import torch  # noqa: F401

    hidden = anonymous.label("compile Canary.forward")
    assert re.fullmatch(r"compile m[0-9a-f]{10}\.forward", hidden)
    assert anonymous.label(hidden) == hidden and anonymous.label("x.Canary") != anonymous.label("x.canary")
    for text in (
        "aten::mm",
        "AddmmBackward0",
        "4,8;;",
        "wait for DataLoader",
        "Linear",
        "garbage collection, generation 2",
    ):
        assert anonymous.label(text) == text
    assert anonymous.message("/home/canary/x.py: No such file").count("canary") == 0
    assert os.fsencode(anonymous.word("\udc80é")).isascii()
