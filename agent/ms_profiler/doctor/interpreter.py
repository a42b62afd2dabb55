"""Start the job's interpreter with a probe instead of the job's program, and report whether ms-profiler is active."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from ms_profiler.doctor.finding import Finding, cause, note, ok
from ms_profiler.job.frameworks import PLUGINS
from ms_profiler.job.origin import VARIABLE

#: longest time that an interpreter may take to start, s; it is long because a network file system may be slow
PATIENCE = 60
#: Value of MS_PROFILER_OPTIONS for the probe, a short program that runs in the job's interpreter. It is used if the
#: job's own value does not switch profiling on.
_ON = '{"start": true}'
#: The probe, a short program that runs in the job's interpreter. It must work in any version of Python. The only
#: installed package that it imports is ms-profiler's.
_PROBE = f"""
import json, os, sys
found = {{"version": list(sys.version_info[:3]), "path": sys.path, "executable": sys.executable}}
found["flags"] = [name for name in ("no_site", "isolated", "ignore_environment") if getattr(sys.flags, name, 0)]
site = sys.modules.get("sitecustomize")
found["sitecustomize"] = getattr(site, "__file__", None)
found["active"] = bool(getattr(sys.modules.get("ms_profiler.job.bootstrap"), "_active", False))
found["lines"] = [folder for folder in sys.path if os.path.isfile(os.path.join(folder, "ms_profiler.pth"))]
ours = os.path.join("ms_profiler", "job", "bootstrap.py")
found["folders"] = [folder for folder in sys.path if os.path.isfile(os.path.join(folder, ours))]
try:
    from importlib.util import find_spec
    found["modules"] = [name for name in {[*PLUGINS, "polars"]!r} if find_spec(name)]
except Exception as reason:
    found["modules"] = []
try:
    import ms_profiler
    found["package"] = ms_profiler.__file__
    import ms_profiler.job.recorder.native
    found["native"] = ""
except BaseException as reason:
    found["native"] = "%s: %s" % (type(reason).__name__, reason)
sys.stdout.write("\\n" + json.dumps(found) + "\\n")
"""


def examine(python: str, flags: Sequence[str], environ: Mapping[str, str], directory: str) -> list[Finding]:
    """Return findings about an interpreter: its version, whether ms-profiler is active in it, and its packages.

    Args:
        python: the path of the interpreter.
        flags: the options of the interpreter in the job's command, for example `-S`.
        environ: the environment variables of the job.
        directory: the directory in which the job starts.
    """
    command = [python, *flags, "-c", _PROBE]
    try:
        done = subprocess.run(
            command,
            env={**environ, VARIABLE: _ON, "MS_PROFILER_RAISE": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            cwd=directory,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as reason:
        return [cause("interpreter", f"{python} cannot be started: {reason}.", "Does the job itself start?")]
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    try:
        row = json.loads(lines[-1])
    except (IndexError, ValueError):
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        text = f"{python} ended before the program began: {said[-1] if said else f'exit code {done.returncode}'}."
        return [cause("interpreter", text, "Does the job itself start?")]
    return [*_version(python, row), *_activation(python, row, environ), *_packages(python, row)]


def _version(python: str, row: dict[str, Any]) -> list[Finding]:
    version = ".".join(map(str, row["version"]))
    if tuple(row["version"]) < (3, 10):
        return [cause("interpreter", f"{python} is Python {version}.", "ms-profiler needs Python 3.10 or newer.")]
    return [ok("interpreter", f"{python} is Python {version}.")]


def _activation(python: str, row: dict[str, Any], environ: Mapping[str, str]) -> list[Finding]:
    site = row["sitecustomize"] or ""
    if row["active"]:
        # Another sitecustomize may exist. ms-profiler's own removes its folder from the path and then executes it.
        if row["lines"]:
            text = f"ms_profiler.pth in {row['lines'][0]} activates it."
        else:
            text = "sitecustomize of ms-profiler, on PYTHONPATH, activates it."
        found = [ok("activation", text)]
        if site:
            found.append(ok("activation", f"The sitecustomize of this environment runs as well: {site}."))
        return found
    if tuple(row["version"]) < (3, 10):
        return []
    ours = [entry for entry in environ.get("PYTHONPATH", "").split(os.pathsep) if _is_ours(entry)]
    if "no_site" in row["flags"]:
        text = "-S keeps Python from importing sitecustomize and from reading site-packages."
        return [cause("activation", text, "Start the job without -S.")]
    if ours and {"isolated", "ignore_environment"} & set(row["flags"]):
        flag = "-I" if "isolated" in row["flags"] else "-E"
        text = f"{flag} makes Python ignore PYTHONPATH, where sitecustomize of ms-profiler is ({ours[0]})."
        remedy = f"Start the job without {flag}, or install ms-profiler: {python} -m pip install ms-profiler"
        return [cause("activation", text, remedy)]
    if ours and site:
        text = f"Another sitecustomize comes before that of ms-profiler: {site}."
        remedy = f"Put {ours[0]} first on PYTHONPATH; its sitecustomize also executes the other one."
        return [cause("activation", text, remedy)]
    if row["folders"]:
        folder = row["folders"][0]
        text = f"{python} finds ms_profiler in {folder}, but Python reads no .pth file there."
        start = os.path.join(folder, "ms_profiler", "_site")
        start = start if os.path.isdir(start) else os.path.join(os.path.dirname(folder), "sitecustomize")
        return [cause("activation", text, f"Put {start} on PYTHONPATH as well, or install it for this interpreter.")]
    text = f"ms-profiler is not installed for {python}."
    remedy = f"{python} -m pip install ms-profiler, or start the job with `ms-profiler run`."
    return [cause("activation", text, remedy)]


def _is_ours(folder: str) -> bool:
    """Return whether a directory on PYTHONPATH holds the sitecustomize of ms-profiler."""
    try:
        with open(os.path.join(folder, "sitecustomize.py"), "rb") as stream:
            return b"MS_PROFILER_OPTIONS" in stream.read(1 << 16)
    except OSError:
        return False


def _packages(python: str, row: dict[str, Any]) -> list[Finding]:
    if "no_site" in row["flags"]:
        return []  # without `site`, the program itself may add the folders with packages to the path
    found = []
    frameworks = [name for name in row["modules"] if name in PLUGINS]
    if not frameworks:
        text = f"{python} finds neither {' nor '.join(PLUGINS)}."
        found.append(cause("framework", text, "Is this the interpreter that the job runs with?"))
    else:
        found.append(ok("framework", f"{python} finds {' and '.join(frameworks)}."))
    if row["native"] and row.get("package"):
        text = f"The extension does not load ({row['native']}); a slower recorder in Python takes its place."
        remedy = "Install the wheel for this machine and Python."
        if "free-threaded" in row["native"]:
            remedy = "Start the job with a Python that has the GIL: without it, the extension does not record."
        found.append(note("recorder", text, remedy))
    if row.get("package") and "polars" not in row["modules"]:
        text = "Polars is not installed: the job is recorded, and not analysed when it ends."
        found.append(note("analysis", text, "pip install 'ms-profiler[analysis]', or run `ms-profiler analyse DIR`."))
    return found
