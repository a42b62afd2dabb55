"""Activate ms-profiler in every interpreter that has this directory on PYTHONPATH.

Interpreters of any version may execute this file, so its syntax is that of Python 2.7. This file hides any other module
`sitecustomize`. So it first removes this directory from `sys.path` and imports the other module, whose errors it does
not catch. Then, if MS_PROFILER_OPTIONS is set and this is Python 3.10 or later, the profiler waits for the import of a
framework. It never raises an error of ours, which would end the interpreter.
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
            # The package is not installed for this interpreter, but lies beside this file, in a checkout or in another
            # environment. Its folder is on sys.path only during the import, because other packages in that folder are
            # not for this interpreter.
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


def _import_hidden(here):
    def elsewhere(entry):
        return os.path.abspath(entry or os.curdir) != here

    sys.path[:] = [entry for entry in sys.path if elsewhere(entry)]
    ours = sys.modules.pop("sitecustomize")  # the caller keeps it: Python 2 clears a module without references
    import sitecustomize  # if there is none, the interpreter ignores this ImportError as it does without this file

    return ours, sitecustomize


_here = os.path.dirname(os.path.abspath(__file__))
try:
    _modules = _import_hidden(_here)
finally:
    _activate(_here)
