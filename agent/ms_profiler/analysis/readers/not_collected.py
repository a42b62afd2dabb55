"""State what a recording lacks, from the records of its processes, the account of disk space, and the files."""

from collections.abc import Sequence

import polars as pl

from ms_profiler.analysis.driver import liveness
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.readers.device_sources import SOURCES
from ms_profiler.store import account, layout, missing
from ms_profiler.store.reader import ProcessStore


def state(recording: tables.Recording, stores: Sequence[ProcessStore]) -> None:
    """Add the missing data of a recording to its counts, and to its list of data that were not collected.

    Args:
        recording: the recording; its run record and its counts are changed in place.
        stores: the stores of its processes, all of which have been read.
    """
    for store in stores:
        of = f" of process {store.pid}, {store.info.name or store.info.role}"
        recording.info.not_collected += [{**entry, "what": entry["what"] + of} for entry in store.info.missing]
    refused = account.read(layout.account_path(recording.directory))
    if refused is not None and refused.refused:
        why = "max_disk, or the disk, had no room when they began to record"
        recording.info.not_collected.append({"what": f"{refused.refused} processes that the job started", "why": why})
    states = dict(recording.processes.select("process", "state").rows())
    for store in stores:
        if states[store.pid] == liveness.RUNNING:
            continue
        lost = missing.find(store, recording.counts.events.get(store.folder, 0))
        if lost is not None:
            recording.counts.missing.append(lost)


def killed(recording: tables.Recording, users: set[int]) -> None:
    """Note that a killed process lost its last records of a device, which its interface still held.

    Args:
        recording: the run.
        users: the processes that may have used a device.
    """
    states = recording.processes.filter(pl.col("process").is_in(users))["state"]
    if not any(map(liveness.is_killed, states.to_list())):
        return
    held = {source.name for source in SOURCES.values()}
    for activity, taken in recording.info.device_sources.items():
        if taken["interface"] not in held:
            continue  # it writes files of its own
        why = f"a process was killed, and {taken['interface']} returns its records once a second"
        recording.info.not_collected.append({"what": f"kernels of the {activity} in the last second", "why": why})
