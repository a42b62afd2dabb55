"""Preload the library of msPTI, Ascend's tracing interface, into a job.

msPTI reports some kinds of records only if LD_PRELOAD names its library. A running job cannot preload a library. So
`ms-profiler run` sets LD_PRELOAD if an option needs these records, and every process of the job preloads msPTI. If
msPTI needs a library that is missing, each process would end at once. So a trial process preloads msPTI first.
"""

import os
import signal
import subprocess
import sys
from collections.abc import MutableMapping

from ms_profiler import options, paths

VARIABLE = "LD_PRELOAD"
LIBRARY = "libmspti.so"
#: The C extension's message contains these words if kinds of records are missing because msPTI was not preloaded.
MISSING = "not preloaded"
#: If LD_PRELOAD names this library, msPTI must not be preloaded as well: torch_npu would then record no markers.
RIVAL = "libascend_kernel_hook.so"
#: longest time of the trial process, in seconds
PATIENCE = 60
WHAT = "memory and copies of the NPU"


def present(environ: "MutableMapping[str, str] | os._Environ[str]") -> bool:
    """Return whether LD_PRELOAD contains the name of msPTI's library; msPTI makes the same check."""
    return LIBRARY in environ.get(VARIABLE, "")


def add(environ: MutableMapping[str, str], chosen: options.Options, libraries: list[str]) -> str:
    """Let a job preload msPTI's library, for records of memory; return the reason if that fails, else an empty text.

    Args:
        environ: the environment variables with which the job will start; this function changes `LD_PRELOAD` in them.
        chosen: the job's options, which request records of memory.
        libraries: possible paths of the library.
    """
    if "NPU" not in chosen.activities or present(environ):
        return ""
    library = next((path for path in libraries if paths.isfile(path)), "")
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
    """Start a trial process that preloads the library; return the reason if it fails, empty on success."""
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
