"""Try the tracing interfaces of this machine, in a process of its own: a library may crash whoever calls it.

Run as a module, it prints what it found as JSON.
"""

import ctypes
import json
import os
import sys

from ms_profiler.job.devices import driver, owner, search
from ms_profiler.job.recorder import create
from ms_profiler.job.recorder.tracing import Kinds, Outcome


def cupti() -> dict[str, object]:
    """Return where NVIDIA's interface is, its version, how many devices there are, and why it cannot be used."""
    # without a driver no library may be called, but it can be said where one lies
    where = next((library for library in search.libraries() if os.path.isabs(library)), "")
    found: dict[str, object] = {"where": where, "version": 0, "devices": 0, "why": ""}
    recorder, reason = create()
    tracing = recorder.tracing
    if tracing is None:
        return {**found, "why": f"the extension does not load: {reason}"}
    missing = driver.missing()
    if missing:
        return {**found, "why": missing}
    devices, why = _devices()
    if not devices:
        return {**found, "why": why}
    for library in search.libraries():
        outcome, why = tracing.attach(library)
        if outcome is Outcome.MISSING:
            continue
        if outcome is Outcome.DONE:
            outcome, why = tracing.record(Kinds.BASIC)
        found |= {"where": _path(library), "version": tracing.counts().version, "devices": devices}
        tracing.detach()
        return {**found, "why": f"it belongs to {owner.name(False)}" if outcome is Outcome.OWNED else why}
    return {**found, "devices": devices, "why": f"there is no CUPTI; {search.PACKAGE}"}


def _devices() -> tuple[int, str]:
    """Return how many devices the driver has, and why none."""
    library = ctypes.CDLL(driver.LIBRARY, mode=os.RTLD_LAZY | os.RTLD_LOCAL)
    count = ctypes.c_int()
    result = library.cuInit(0) or library.cuDeviceGetCount(ctypes.byref(count))
    if result:
        return 0, f"the driver answers {result}; see whether nvidia-smi works"
    return count.value, "" if count.value else "the driver has no device; see CUDA_VISIBLE_DEVICES"


def _path(library: str) -> str:
    """Return which file a library was loaded from."""
    return next(iter(search.mapped(search.CUPTI)), library)


if __name__ == "__main__":
    json.dump({"CUPTI": cupti()}, sys.stdout)
