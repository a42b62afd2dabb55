"""Activate ms-profiler in every interpreter that has this directory on PYTHONPATH.

Interpreters of any version may find it, so it keeps to syntax that Python 2.7 reads. It first stands aside for the
`sitecustomize` it hides: afterwards that one is in `sys.modules`, `sys.path` is as it would be without this directory,
and whatever it raises is raised. Then, if MS_PROFILER_OPTIONS is set and this is Python 3.10 or later, the profiler
waits for a framework to be imported. No error of ours gets out: at this point it would end the interpreter.
"""

import os
import sys


def _activate(here):
    if not os.environ.get("MS_PROFILER_OPTIONS") or sys.version_info < (3, 10):
        return
    try:
        try:
            import ms_profiler
        except ImportError:
            # Not installed for this interpreter: found beside this file, in a checkout or in another environment. On
            # sys.path only while it is imported, as the rest of that environment is not for this interpreter.
            parent = os.path.dirname(here)
            if os.path.basename(parent) == "ms_profiler":
                parent = os.path.dirname(parent)
            else:
                parent = os.path.join(parent, "agent")
            sys.path.append(parent)
            try:
                import ms_profiler  # noqa: F401
            finally:
                sys.path.remove(parent)
        from ms_profiler.job import bootstrap

        bootstrap.activate()
    except BaseException:
        if os.environ.get("MS_PROFILER_RAISE") == "1":
            raise


def _stand_aside(here):
    def elsewhere(entry):
        return os.path.abspath(entry or os.curdir) != here

    sys.path[:] = [entry for entry in sys.path if elsewhere(entry)]
    ours = sys.modules.pop("sitecustomize")  # kept by name: Python 2 empties a module that nothing holds
    import sitecustomize  # if there is none, the interpreter takes this ImportError as it takes its own

    return ours, sitecustomize


_here = os.path.dirname(os.path.abspath(__file__))
try:
    _held = _stand_aside(_here)
finally:
    _activate(_here)
