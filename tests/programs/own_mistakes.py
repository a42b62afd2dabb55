"""Call MindSpore's profiler in ways that MindSpore's own profiler survives; print the result of each call."""

import signal
import sys
import warnings

import mindspore as ms
import mindspore.profiler as profiling
import numpy as np
from mindspore import nn
from mindspore.profiler.profiler import analyse

ms.set_device("CPU")
net = nn.Dense(3, 3)
x = ms.Tensor(np.ones((2, 3), np.float32))


class TimeoutOfJobError(Exception):
    """An exception of a signal handler."""


def interrupt(*_):
    raise TimeoutOfJobError


def attempt(what, call):
    print(f"-- {what}", file=sys.stderr, flush=True)
    try:
        print(what, "->", call())
    except BaseException as reason:  # noqa: BLE001 - the test compares what is raised
        print(what, "raised", type(reason).__name__)


def report(_):
    raise ValueError("my handler has a bug")


def profile(**words):
    """Return a profiler that is not started and analyses nothing."""
    return profiling.profile(**{"start_profile": False, "on_trace_ready": quiet, **words})


def cycles():
    plan = profiling.schedule(wait=0, warmup=1, active=2, repeat=2)
    with profiling.profile(schedule=plan, on_trace_ready=report) as profiler:
        for _ in range(7):
            net(x).asnumpy()
            profiler.step()
    return len(profiler.results)


def stepped(schedule):
    profiler = profile(schedule=schedule, start_profile=True)
    for _ in range(3):
        profiler.step()
    profiler.stop()
    return profiler.results


def never_stepped():
    profile(schedule=profiling.schedule(wait=1, warmup=1, active=2), start_profile=True).stop()


quiet = profiling.tensorboard_trace_handler("own", analyse_flag=False)
signal.signal(signal.SIGUSR1, interrupt)
warnings.simplefilter(sys.argv[1])
attempt("a handler that raises", cycles)
attempt("a handler that exits", lambda: profiling.profile(on_trace_ready=lambda _: sys.exit(3)).stop())
attempt("a timeout", lambda: profiling.profile(on_trace_ready=lambda _: signal.raise_signal(signal.SIGUSR1)).stop())
attempt("schedule=5", lambda: bool(profile(schedule=5)))
attempt("schedule returns 7", lambda: stepped(lambda _: 7))
attempt("schedule raises in step()", lambda: stepped(lambda step: 0 if step == 0 else 1 / 0))
attempt("schedule raises at once", lambda: profile(schedule=lambda _: 1 / 0))
attempt("on_trace_ready=5", lambda: bool(profile(on_trace_ready=5)))
attempt("offline_analyse(5)", lambda: profiling.Profiler.offline_analyse(5))
attempt("analyse(5)", lambda: analyse(5))
attempt("analyse(step_list=5)", lambda: analyse("x", step_list=5))
attempt("analyse(max_process_number='two')", lambda: analyse("nothing/here", max_process_number="two"))
attempt("op_analyse() without a result", lambda: profiling.Profiler(start_profile=False).op_analyse("MatMul"))
attempt("op_analyse(5)", lambda: profiling.Profiler(start_profile=False).op_analyse(5))
attempt("tensorboard_trace_handler(5)", lambda: profiling.tensorboard_trace_handler(5))
attempt("tensorboard_trace_handler(name=5)", lambda: profiling.tensorboard_trace_handler(name=5))
attempt("step(1, 2)", lambda: profile().step(1, 2))
attempt("add_metadata(1)", lambda: profile().add_metadata(1))
attempt("experimental_config=5", lambda: bool(profile(experimental_config=5)))
attempt("start_profile='no'", lambda: profile(start_profile="no").stop())
attempt("odd values", lambda: bool(profile(with_stack=object(), profile_memory=np.ones(2))))
attempt("no step()", never_stepped)
attempt("cfg_path=5", lambda: profiling.DynamicProfilerMonitor(5))
attempt("step_end(5)", lambda: profiling.DynamicProfilerMonitor("watched", output_path=5).step_end(5))
again = profiling.Profiler(output_path="again")
net(x).asnumpy()
attempt("a step that is not there", lambda: again.analyse(step_list=[77]))
attempt("a step that is there", lambda: again.analyse(step_list=[0]))
