"""Which devices can be traced on this machine, and what keeps one from it."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass

#: Seconds that a try may take: a driver may start up a device in it.
PATIENCE = 120
#: interface -> what it traces
SOURCES = {"CUPTI": "GPUs of NVIDIA"}


@dataclass(frozen=True)
class Finding:
    """What was found of one interface.

    Attributes:
        source: the interface.
        devices: what it traces.
        where: its library; empty where none was found.
        version: as the library says it; 0 where it was not asked.
        count: of devices.
        why: it cannot be used, and what to do; empty where it can.
    """

    source: str
    devices: str
    where: str = ""
    version: int = 0
    count: int = 0
    why: str = ""


def survey() -> list[Finding]:
    """Try every interface, in another process, and return what was found."""
    command = [sys.executable, "-m", "ms_profiler.job.devices.probe"]
    environ = {name: value for name, value in os.environ.items() if name != "MS_PROFILER_OPTIONS"}
    try:
        done = subprocess.run(command, env=environ, capture_output=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return _all(f"its library did not answer within {PATIENCE} s")
    if done.returncode < 0:
        return _all(f"its library crashes ({signal.Signals(-done.returncode).name}); use another version of it")
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return _all(f"it could not be tried: {lines[-1] if lines else 'no reason given'}")
    found = json.loads(done.stdout)
    return [
        Finding(source, devices, str(row["where"]), int(row["version"]), int(row["devices"]), str(row["why"]))
        for source, devices in SOURCES.items()
        if (row := found[source])
    ]


def _all(why: str) -> list[Finding]:
    return [Finding(source, devices, why=why) for source, devices in SOURCES.items()]
