"""Use the profiler in every invalid way; print the result of each. usage: own_errors.py NAMES

NAMES is the package whose classes the program uses, "mindspore.profiler" or "ms_profiler".
"""

import importlib
import sys
import warnings

import mindspore  # noqa: F401 - there is nothing to profile without it

profiling = importlib.import_module(sys.argv[1])
warnings.simplefilter("always")


def attempt(what, call):
    with warnings.catch_warnings(record=True) as caught:
        try:
            result = call()
        except RuntimeError:
            print(what, "raised RuntimeError")
            return None
    print(what, "warned" if caught else "passed")
    return result


late = attempt("late", lambda: profiling.profile(start_profile=False))
attempt("stop before start", late.stop)
attempt("step without schedule", late.step)
attempt("start", late.start)
attempt("start twice", late.start)
attempt("stop", late.stop)
attempt("stop twice", late.stop)
early = attempt("early", profiling.profile)
attempt("start although started", early.start)
attempt("stop early", early.stop)
old = attempt("old", lambda: profiling.Profiler(output_path="old", optypes_not_deal="Variable", ascend_job_id="x"))
attempt("old start", old.start)
attempt("old step", old.step)
attempt("old stop", old.stop)
attempt("wrong value", lambda: profiling.profile(start_profile=False, activities=["FPGA"]))
data = attempt("data", lambda: profiling.Profiler(output_path="old", start_profile=False, data_process=True))
for word in ("start", "stop", "start"):
    attempt(f"data {word}", getattr(data, word))
