"""Preload msPTI's library into a job: msPTI reports some kinds of records only if LD_PRELOAD names it.

A job cannot preload a library for itself; `ms-profiler run` does it when an option needs it. Every process of the job
preloads it then. When a library that msPTI needs is missing, such a process ends at once. So a trial process preloads
msPTI first.
"""

import os
import signal
import subprocess
import sys
from collections.abc import MutableMapping

from ms_profiler import options

VARIABLE = "LD_PRELOAD"
LIBRARY = "libmspti.so"
#: the extension's word for a kind that needs the preloaded library
MISSING = "not preloaded"
#: torch_npu records no markers where both libraries are preloaded
RIVAL = "libascend_kernel_hook.so"
#: longest time of the trial process, in seconds
PATIENCE = 60
WHAT = "memory and copies of the NPU"


def present(environ: "MutableMapping[str, str] | os._Environ[str]") -> bool:
    """Return whether msPTI will find itself preloaded: it looks for its name in the variable."""
    return LIBRARY in environ.get(VARIABLE, "")


def add(environ: MutableMapping[str, str], chosen: options.Options, libraries: list[str]) -> str:
    """Preload the library for records of memory; return a line that names the obstacle, empty on success.

    Args:
        environ: the environ of the job.
        chosen: the job's options, with memory recorded.
        libraries: places of the library; those that do not exist are skipped.
    """
    if "NPU" not in chosen.activities or present(environ):
        return ""
    library = next((path for path in libraries if os.path.isfile(path)), "")
    if not library:
        named = "activities" in chosen.given
        return f"{WHAT} are not recorded: there is no {LIBRARY}; source CANN's set_env.sh" if named else ""
    before = environ.get(VARIABLE, "")
    if RIVAL in before:
        return f"{WHAT} are not recorded: {RIVAL} is in {VARIABLE}, and works only without {LIBRARY}"
    why = _try(library, environ)
    if why:
        return f"{WHAT} are not recorded: {why}"
    environ[VARIABLE] = f"{library}:{before}" if before else library
    return ""


def _try(library: str, environ: MutableMapping[str, str]) -> str:
    """Start a process that preloads the library; return the reason of a failure, empty on success."""
    variables = {name: value for name, value in environ.items() if name != "MS_PROFILER_OPTIONS"}
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", ""],
            env={**variables, VARIABLE: library},
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"a process that preloads {library} does not end"
    if done.returncode:
        how = signal.Signals(-done.returncode).name if done.returncode < 0 else f"status {done.returncode}"
        return f"a process that preloads {library} ends with {how}; `ms-profiler doctor` names the missing parts"
    if b"cannot be preloaded" in done.stderr:
        return done.stderr.decode("utf-8", "replace").strip().splitlines()[-1]
    return ""
