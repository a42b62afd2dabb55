"""The function that the installed `.pth` and `.start` files call at the start of the interpreter.

PYTEST_DONT_REWRITE: see `ms_profiler`.
"""

import os


def activate():
    """Start ms-profiler if MS_PROFILER_OPTIONS is set; else import nothing. Never raise: an error would end the job."""
    if os.environ.get("MS_PROFILER_OPTIONS"):
        try:
            from ms_profiler.job import bootstrap

            bootstrap.activate()
        except BaseException:
            if os.environ.get("MS_PROFILER_RAISE") == "1":
                raise
