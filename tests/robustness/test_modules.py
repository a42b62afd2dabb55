"""Each name of a framework looks the same to a script: kind, signature, documentation, source, pickles and copies."""

import json
import re

import pytest
from conftest import PROGRAMS, launcher

#: pattern of names that differ -> the difference, and why it does not matter to scripts
DIFFERENT = {
    r"torch\._C\._autograd\._(\w*profiler|clear_callbacks)": "functions of C, here of Python; only PyTorch calls them",
    r"torch\._C\._profiler\._RecordFunctionFast": "a class of C that only PyTorch uses, here another class of C",
    r"torch\._C\._distributed_c10d\.Work:wait": "a method of C, which is a function here",
    r"torch\.distributed\._broadcast_coalesced": "a function of C that DistributedDataParallel calls by this name",
    r"torch\.fx\._symbolic_trace\._orig_module_call": "the original, which Dynamo has no longer",
    r"torch\._dynamo\.": "functions that only Dynamo calls, without values of defaults and without pickles",
    r"mindspore\.(Profiler|profiler)\b": "MindSpore's own profiler is ours, with the same interface",
    r"\.pyboost_\w+$": "functions of C that only operators call; each module has its own one",
    r"\.[A-Z]\w+:__call__$": "primitives of communication have the method that they had of their base",
    r"\._c_dataengine\.ProfilingManager:init": "a method of C, which is a function here",
    r"\.engine\.Iterator:__init__": "a function without values of defaults; its signature has them",
    r"\.new_load_distributed_checkpoint": "another name of a function that is replaced under its own",
}


def described(folder, framework, profile):
    """Return the facts about each name of a framework, which `namespaces.py` writes with or without the profiler."""
    path = folder / f"{framework}-{profile}.json"
    run = launcher(folder)(
        PROGRAMS / "namespaces.py", framework, str(path), options={"analyse": "off"}, profile=profile, timeout=500
    )
    assert run.code == 0, run.err
    return dict(map(json.loads, path.read_text().splitlines()))


@pytest.mark.parametrize("framework", ["torch", "mindspore"])
def test_each_name_looks_the_same(tmp_path, framework):
    bare, profiled = (described(tmp_path, framework, profile) for profile in (False, True))
    assert len(bare) > 10_000
    differ = {
        name: (bare.get(name), profiled.get(name))
        for name in {*bare, *profiled}
        if bare.get(name) != profiled.get(name)
    }
    assert not {name: found for name, found in differ.items() if not any(re.search(one, name) for one in DIFFERENT)}
