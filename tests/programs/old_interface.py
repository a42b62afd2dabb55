"""Use MindSpore's older profiler interface in every valid way; print the results. usage: old_interface.py NAMES

NAMES is the package whose classes the program uses, "mindspore.profiler" or "ms_profiler". The recordings go to
"by_hand", "within" and "left".
"""

import importlib
import json
import pathlib
import sys
import warnings

import mindspore as ms
import numpy as np
from mindspore import nn

profiling = importlib.import_module(sys.argv[1])
Profiler = profiling.Profiler
ms.set_device("CPU")
net = nn.Dense(3, 4)
frozen = nn.Dense(3, 4)
frozen.weight.requires_grad = False
x = ms.Tensor(np.ones([2, 3], np.float32))


def written(folder, name):
    """Return whether the only result in a folder contains a file."""
    (result,) = pathlib.Path(folder).glob("*_ascend_ms")
    return (result / name).exists()


with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    by_hand = Profiler(
        output_path="by_hand", start_profile=False, optypes_not_deal="Variable", ascend_job_id="1", profile_memory=False
    )
print(sorted(str(warning.message).split(" is ")[0] for warning in caught))
print(by_hand.profile(net), by_hand.profile(frozen, None))
by_hand.add_metadata("text", "[1]")
by_hand.add_metadata_json("list", "[1]")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    by_hand.add_metadata_json("broken", "[1")
    by_hand.add_metadata("number", 1)
    by_hand.add_metadata("long", "x" * (100 * 2**20))
print(len(caught))
by_hand.start()
for _ in range(3):
    net(x).asnumpy()
by_hand.stop()
print(written("by_hand", "summary.json"))
by_hand.analyse(pretty=True)
(result,) = pathlib.Path("by_hand").glob("*_ascend_ms")
metadata = json.loads((result / "profiler_metadata.json").read_text())
print({key: value for key, value in metadata.items() if key != "ms_profiler"})
print((result / "summary.json").read_text().startswith('{\n    "version"'))
found = json.loads(by_hand.op_analyse(["MatMul", "BiasAdd"]))
print([[item["op_occurrences"] for item in found[name]] for name in ("MatMul", "BiasAdd")])

with Profiler(output_path="within", start_profile=False) as within:
    net(x).asnumpy()
print(written("within", "summary.json"))
Profiler.offline_analyse("within")
print(written("within", "summary.json"))

left = Profiler(output_path="left")
net(x).asnumpy()
del left  # deleting the profiler stops it
(result,) = pathlib.Path("left").glob("*_ascend_ms")
print(json.loads((result / "FRAMEWORK" / "run_info.json").read_text())["window"]["end_ns"] > 0)
# MindSpore has `analyse` in another module
where = importlib.import_module("mindspore.profiler.profiler") if "mindspore" in sys.argv[1] else profiling
where.analyse("left", max_process_number=1)
print(written("left", "summary.json"))

with Profiler(output_path="later", start_profile=False) as later:
    net(x).asnumpy()
later.analyse(mode="async")
