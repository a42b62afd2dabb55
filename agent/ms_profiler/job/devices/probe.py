"""Try a tracing interface on this machine, in a separate process, because the vendor's library may crash.

usage: python -m ms_profiler.job.devices.probe NAME; it prints the result as JSON.
"""

import json
import sys

from ms_profiler import paths
from ms_profiler.job.devices.devices import INTERFACES
from ms_profiler.job.devices.interface import Interface
from ms_profiler.job.recorder import create
from ms_profiler.job.recorder.tracing import Kinds, Outcome


def probe(interface: Interface) -> dict[str, object]:
    """Attach and test a tracing interface; return what was found.

    Returns:
        `where` and `version` of the library; `devices`, the number of devices; `why` the interface cannot be used; and
        `limits`, the kinds of records that it cannot make.
    """
    # Without a driver, no function of the library may be called. But the path of the library can be reported.
    where = next((library for library in interface.libraries() if paths.isabs(library)), "")
    found: dict[str, object] = {"where": where, "version": "", "devices": 0, "why": "", "limits": ""}
    recorder, reason = create()
    tracing = interface.tracing(recorder)
    if tracing is None:
        return {**found, "why": f"the extension does not load: {reason}"}
    missing = interface.missing()
    if missing:
        return {**found, "why": missing}
    devices, why = interface.devices()
    if not devices:
        return {**found, "why": why}
    for library in interface.libraries():
        outcome, why = tracing.attach(library)
        if outcome is Outcome.MISSING:
            continue
        if outcome is Outcome.DONE:
            outcome, why = tracing.record(Kinds.BASIC | Kinds.MEMORY)
        path = _path(interface, library)
        found |= {"where": path, "devices": devices, "version": interface.version(path, tracing.counts().version)}
        tracing.detach()
        if outcome is Outcome.DONE:
            return {**found, "limits": interface.left_out(why) if why else ""}
        return {**found, "why": f"it belongs to {interface.owner(False)}" if outcome is Outcome.OWNED else why}
    return {**found, "devices": devices, "why": f"there is no {interface.name}; {interface.package}"}


def _path(interface: Interface, library: str) -> str:
    """Return the path of the file from which a library was loaded; `library` may be a bare name."""
    return next((path for path in interface.libraries() if paths.isabs(path)), library)


if __name__ == "__main__":
    (chosen,) = [interface for interface in INTERFACES if interface.name == sys.argv[1]]
    json.dump(probe(chosen()), sys.stdout)
