"""Train in one child after another, each of which has one hook of a framework fail.

The hooks pass through few places of the product, which name them here: the declarations of a plugin, the application of
each target, the functions of ours around each call, the sources of a session, and the callbacks of imports.
usage: failing_hooks.py torch|mindspore OUTPUT FAULT..., prints a line of JSON for each. A FAULT is "bare" for a child
without a session, "list" for a child that tells each place with the number of times it was reached, or a place.
"""

import importlib
import os
import sys
from collections import Counter

from faulty_children import each

OPTIONS = {"analyse": "off", "profile_memory": True, "record_shapes": True, "parallel_strategy": True}


class Places:
    """The places of hooks, one of which fails.

    Args:
        fault: the place, or "list".
        reached: receives an entry when that place is reached, or all places at the end.
    """

    def __init__(self, fault, reached):
        self._fault, self._reached = fault, reached
        self._times = Counter()

    def known(self, place):
        """Note that there is a place."""
        self._times[place] += 0

    def passed(self, place):
        """Note that a place is reached, and fail if it is the one."""
        self._times[place] += 1
        if self._fault == "list":
            self._reached[:] = [dict(self._times)]
        elif self._fault == place:
            self._reached[:] = [1]
            raise MemoryError("planted")

    def failing(self, place, call):
        """Return a function that passes through a place before it calls another one."""
        self.known(place)

        def passing(*args, **kwargs):
            self.passed(place)
            return call(*args, **kwargs)

        for name in ("__module__", "__qualname__"):
            setattr(passing, name, named(call, name))
        return passing


def named(call, attribute):
    """Return the module or the name of a function, of a method, or of an object that is called."""
    return getattr(call, attribute, None) or getattr(type(call), attribute)


def full(call):
    """Return the full name of a function of ours, without the part that each object has."""
    return f"{named(call, '__module__')}.{named(call, '__qualname__')}"


def plant(fault, reached):
    """Make one place fail."""
    from ms_profiler.job.frameworks import base, import_hook
    from ms_profiler.job.recorder.native import NativeRecorder
    from ms_profiler.job.session import Session

    places = Places(fault, reached)
    declared, applied = base.Plugin._declared, base.Plugin._apply
    wrap, watch = NativeRecorder.wrap, import_hook.watch

    def declare(self, concern, host):
        return declared(self, places.failing(f"declared {full(concern)}", concern), host)

    def apply(self, target):
        places.passed(f"applied {target.name}")
        return applied(self, target)

    def wrapped(self, function, *, before=None, after=None, describe=None, **settings):
        for name, call in (("before", before), ("after", after), ("describe", describe)):
            if call not in (None, base._nothing):
                call = places.failing(f"{name} {full(call)}", call)
            if call is not None:
                settings[name] = call
        return wrap(self, function, **settings)

    def watched(name, before=None, after=None, failed=None):
        if after is not None and named(after, "__module__").startswith("ms_profiler.job.frameworks"):
            after = places.failing(f"imported {name}", after)
        watch(name, before, after, failed)

    base.Plugin._declared, base.Plugin._apply = declare, apply
    NativeRecorder.wrap, import_hook.watch = wrapped, watched
    for kind in ("at_start", "at_step", "at_end"):
        register = getattr(Session, kind)

        def registered(self, call, kind=kind, register=register):
            register(self, places.failing(f"{kind} {full(call)}", call))

        setattr(Session, kind, registered)


def main(framework, folder, *faults):
    """Run all faults."""
    work = importlib.import_module(f"hooked_{framework}").work
    place = os.path.join(folder, "work")
    os.makedirs(place, exist_ok=True)
    each(faults, folder, OPTIONS, plant, lambda: work(place))


main(*sys.argv[1:])
