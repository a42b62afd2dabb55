"""Train in one child after another; in each child, one hook of a framework fails.

All hooks pass through a few places of ms-profiler: the declarations of a plugin, the application of each target, our
functions around each call, the sources of a session, and the callbacks of imports. The name of a fault is the name of
its place. The program prints a line of JSON for each FAULT: a place, "bare" for a child without a session, or "list"
for a child that reports how often it reached each place. usage: failing_hooks.py torch|mindspore OUTPUT FAULT...
"""

import importlib
import os
import sys
from collections import Counter

from faulty_children import each

OPTIONS = {"analyse": "off", "profile_memory": True, "record_shapes": True, "parallel_strategy": True}


class Places:
    """Count how often the job reaches each place of a hook, and raise an error at the planted one.

    Args:
        fault: the name of the place, or "list" to raise no error.
        reached: a list that receives an entry once the planted place is reached; with "list", it receives all counts.
    """

    def __init__(self, fault, reached):
        self._fault, self._reached = fault, reached
        self._times = Counter()

    def known(self, place):
        """Note a place that the job has not reached yet."""
        self._times[place] += 0

    def passed(self, place):
        """Note that the job reached a place, and raise MemoryError if it is the planted one."""
        self._times[place] += 1
        if self._fault == "list":
            self._reached[:] = [dict(self._times)]
        elif self._fault == place:
            self._reached[:] = [1]
            raise MemoryError("planted")

    def failing(self, place, call):
        """Return a function that passes through a place and then calls `call`."""
        self.known(place)

        def passing(*args, **kwargs):
            self.passed(place)
            return call(*args, **kwargs)

        for name in ("__module__", "__qualname__"):
            setattr(passing, name, named(call, name))
        return passing


#: full name of the function that `base.around` calls after a call if the hook has none of its own
NOTHING = "ms_profiler.job.frameworks.base.around.<locals>.make.<locals>.<lambda>"


def named(call, attribute):
    """Return an attribute such as `__module__` of a function or method; for another object, that of its class."""
    return getattr(call, attribute, None) or getattr(type(call), attribute)


def full(call):
    """Return the module and the qualified name of a function, which is the same for all objects of a class."""
    return f"{named(call, '__module__')}.{named(call, '__qualname__')}"


def plant(fault, reached):
    """Make one place fail in this process."""
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
            if call is not None and full(call) != NOTHING:
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
    """Run a child for each fault."""
    work = importlib.import_module(f"hooked_{framework}").work
    place = os.path.join(folder, "work")
    os.makedirs(place, exist_ok=True)
    each(faults, folder, OPTIONS, plant, lambda: work(place))


main(*sys.argv[1:])
