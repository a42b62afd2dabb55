"""Find out which devices ms-profiler can trace on this machine, and why it cannot trace others."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from json import loads

from ms_profiler.job.devices.devices import INTERFACES
from ms_profiler.job.devices.interface import Interface

#: Longest time of a trial, in seconds; a driver may have to start a device.
PATIENCE = 120


@dataclass(frozen=True)
class Finding:
    """Whether one tracing interface, for example CUPTI, can be used on this machine.

    Attributes:
        source: name of the interface.
        devices: the devices that the interface traces, for example "GPUs of NVIDIA".
        where: path of the interface's library; empty if none was found.
        version: version of the library; empty if unknown.
        count: number of devices that the driver reports.
        why: the reason why the interface cannot be used, and the remedy; empty if it can be used.
        limits: the kinds of records that the interface cannot make, and the remedy; empty if it can make all.
    """

    source: str
    devices: str
    where: str = ""
    version: str = ""
    count: int = 0
    why: str = ""
    limits: str = ""


def survey() -> list[Finding]:
    """Try every tracing interface, each in a separate process, and return a finding for each."""
    return [find(interface()) for interface in INTERFACES]


def find(interface: Interface, patience: float = PATIENCE) -> Finding:
    """Try one tracing interface in a separate process, and return the finding.

    Args:
        interface: the interface.
        patience: longest time that the process may take, in seconds.
    """

    def not_usable(why: str) -> Finding:
        return Finding(interface.name, interface.traces, why=why)

    command = [sys.executable, "-m", "ms_profiler.job.devices.probe", interface.name]
    environ = {name: value for name, value in os.environ.items() if name != "MS_PROFILER_OPTIONS"}
    try:
        done = subprocess.run(command, env=environ, capture_output=True, timeout=patience, check=False)
    except subprocess.TimeoutExpired:
        return not_usable(f"its library did not answer within {patience:g} s")
    if done.returncode < 0:
        return not_usable(f"its library crashes ({signal.Signals(-done.returncode).name}); use another version of it")
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return not_usable(f"it could not be tried: {lines[-1] if lines else 'no reason given'}")
    try:
        row = loads(done.stdout)
    except ValueError:  # it crashed. Its exit status reads 0 here if the caller ignores SIGCHLD or waits for children.
        return not_usable("its library crashes; use another version of it")
    return Finding(
        interface.name,
        interface.traces,
        str(row["where"]),
        str(row["version"]),
        int(row["devices"]),
        str(row["why"]),
        str(row["limits"]),
    )
