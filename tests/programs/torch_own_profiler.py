"""Use every profiler of PyTorch in every way; print the events of each, with marked regions between them."""

import json
import threading
import warnings
from collections import Counter

import torch
from torch.autograd import profiler as legacy
from torch.profiler import ProfilerActivity, profile, record_function, schedule

CPU = [ProfilerActivity.CPU]
core = torch._C._autograd
seen = {}
regions = []


def counts(events):
    return sorted(Counter(event.name for event in events).items())


def work(times=1):
    x = torch.ones(3, requires_grad=True)
    for _ in range(times):
        regions.append(times)
        with record_function("region"):
            (x * 2).sum().backward()


def between(name):
    with record_function(f"between {name}"):
        torch.ones(2).cos()


def error_of(call):
    try:
        call()
    except (RuntimeError, AssertionError) as reason:
        return f"{type(reason).__name__}: {str(reason).splitlines()[0]}"
    return "none"


between("start")
seen["state before"] = [torch.autograd._profiler_enabled(), str(core._profiler_type())]
with profile(activities=CPU) as kept:
    work()
    seen["state inside"] = [torch.autograd._profiler_enabled(), str(core._profiler_type())]
    seen["twice"] = error_of(
        lambda: core._enable_profiler(kept.profiler.config(), set(kept.profiler.kineto_activities))
    )
seen["with"] = counts(kept.events())
between("with")

steps = []


def ready(kept):
    steps.append(counts(kept.events()))
    with profile(activities=CPU) as inner:
        work(2)
    steps.append(counts(inner.events()))


with profile(activities=CPU, schedule=schedule(wait=1, warmup=1, active=2, repeat=2), on_trace_ready=ready) as kept:
    for step in range(9):
        work(step)
        kept.step()
seen["schedule"] = steps
between("schedule")

try:
    with profile(activities=CPU) as kept:
        work()
        raise KeyError("x")
except KeyError:
    seen["exception"] = counts(kept.events())
between("exception")


def in_thread():
    work()
    with profile(activities=CPU, record_shapes=True) as kept:
        work()
    seen["thread"] = counts(kept.events())
    work()
    between("thread")


thread = threading.Thread(target=in_thread)
thread.start()
thread.join()

waiting, done = threading.Event(), threading.Event()


def long_thread():
    work()
    waiting.set()
    done.wait()
    work()


thread = threading.Thread(target=long_thread)
thread.start()
waiting.wait()
with profile(activities=CPU) as kept:
    work()
    done.set()
    thread.join()
seen["beside a thread"] = counts(kept.events())
between("beside a thread")


def on_all_threads(everywhere):
    global waiting, done
    with profile(activities=CPU, experimental_config=everywhere) as kept:
        work()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    seen["all threads"] = counts(kept.events())
    between("all threads")

    waiting, done = threading.Event(), threading.Event()
    thread = threading.Thread(target=long_thread)
    thread.start()
    waiting.wait()
    kept = profile(activities=CPU, experimental_config=everywhere)
    kept.start()
    work()
    done.set()
    thread.join()
    stopper = threading.Thread(target=kept.stop)
    stopper.start()
    stopper.join()
    seen["stopped elsewhere"] = counts(kept.events())
    between("stopped elsewhere")


# older versions of PyTorch lack this option
if "profile_all_threads" in torch._C._profiler._ExperimentalConfig.__init__.__doc__:
    on_all_threads(torch._C._profiler._ExperimentalConfig(profile_all_threads=True))

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    with legacy.profile(use_kineto=False) as kept:
        work()
    seen["legacy"] = counts(kept.function_events)
    with legacy.profile(use_kineto=True) as kept:
        work()
    seen["autograd"] = counts(kept.function_events)
between("legacy")

with legacy.emit_itt():
    work()
    seen["itt inside itt"] = error_of(lambda: legacy.emit_itt().__enter__())
between("itt")
seen["nvtx"] = error_of(lambda: legacy.emit_nvtx().__enter__())
seen["stop"] = error_of(core._disable_profiler)
between("end")
seen["state after"] = [torch.autograd._profiler_enabled(), str(core._profiler_type())]
seen["regions"] = len(regions)
print(json.dumps(seen))
