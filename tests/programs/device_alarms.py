"""Record a made-up device while an exception interrupts ms-profiler once, in every place where a signal handler can.

usage: device_alarms.py INTERFACE DRIVER FOLDER LOG

The job catches the exception and goes on. At the end the same work runs without an exception. The program prints what
went wrong where.
"""

import ctypes
import functools
import glob
import json
import os
import shutil
import signal
import sys
from types import SimpleNamespace

from interruption import Interruption
from ms_profiler.job import process, recording, session, sources
from ms_profiler.job.devices import aclprof, aclprof_tracing, cupti, devices, lending, mspti, search, source
from ms_profiler.job.recorder import native
from ms_profiler.job.schedule import Schedule
from ms_profiler.options import resolve

INTERFACE, DRIVER, FOLDER, LOG = sys.argv[1:]
MODULES = (sources, native, devices, source, lending, aclprof, aclprof_tracing, cupti, mspti)
#: functions of a fake library: they begin and end its use, and they begin and end its records
BEGINS, ENDS = ("Subscribe", "aclprofInit"), ("Unsubscribe", "aclprofFinalize")
ON, OFF = ("Enable", "aclprofStart"), ("Disable", "aclprofStop")
#: number of steps after which the schedule records, or does not record
RECORDED, UNRECORDED = (4, 9), (6,)


def calls(since):
    """Return the names of the calls of the fake library from an offset in its log on, and the offset after them."""
    with open(LOG) as stream:
        stream.seek(since)
        found = [" ".join(line.split()[1:3]) for line in stream.readlines()]
        return [call for call in found if not call.startswith(("Flush", "GetNumDropped"))], stream.tell()


def count(found, names):
    return sum(call.split()[0] in names for call in found)


ctypes.CDLL(DRIVER)
if INTERFACE == "CUPTI":
    ctypes.CDLL(DRIVER).cuInit(0)
search.mapped = functools.cache(search.mapped)  # saves time: the job loads no further library
interrupts = ctypes.create_string_buffer(512)
job = session.Session(process.identity({}))
job.devices.targets(job)
job.recorder.open(os.path.join(FOLDER, "store"))
job.limit = 10**10
options = {"quiet": True} | ({"l2_cache": True} if INTERFACE == "aclprof" else {})
(used,) = (each for each in job.devices.sources if each.interface.name == INTERFACE)
begins, ends = lending.targets(SimpleNamespace(devices=job.devices, guard=job.guard), "", "", "")


def interrupt_handler():
    """Return the address of the process's handler for SIGINT."""
    ctypes.CDLL(None).sigaction(int(signal.SIGINT), None, interrupts)
    return interrupts.raw[:8]


def train(tried, steps=9):
    """Record the steps of a schedule and lend the device once.

    Args:
        tried: see `Interruption`.
        steps: the number of steps.

    Returns:
        The place of the exception, what is wrong, and the library's calls.
    """
    global offset
    made = recording.Recording(resolve(options)[0], [], job.identity)
    made.result = FOLDER
    job.recordings, job.home = [made], made
    job.steps.reset(Schedule(active=2, wait=3))
    wrong, raised, alarm, since = [], 0, Interruption(MODULES, tried), offset

    def lent():
        found, _ = calls(since)
        if count(found, BEGINS) != count(found, ENDS):
            wrong.append("the script's profiler finds the device in use")

    def lend():
        failed = alarm.during("lend", begins.wrapper, lent, None, (), {})
        return failed or alarm.during("return", ends.wrapper, int, None, (), {})

    raised += alarm.during("start" if steps else "start without steps", job.sources.started)
    if not steps:
        raised += lend()
    for number in range(1, steps + 1):
        job.steps.count = number
        interrupted = alarm.during({2: "on", 6: "off"}.get(number, "step"), job.sources.stepped, number, True)
        raised += interrupted
        if number == 7:
            raised += lend()
        found, _ = calls(since)
        off = count(found, ON) == count(found, OFF)
        if not interrupted and ((off and number in RECORDED) or (not off and number in UNRECORDED)):
            wrong.append(f"the device is {'not ' * off}recorded in step {number}")
    if alarm.during("end", job.sources.ended):
        raised += 1
        job.sources.ended()  # as at the end of the process
    found, offset = calls(since)
    for folder in glob.glob(os.path.join(glob.escape(FOLDER), "PROF_*")):
        shutil.rmtree(folder)
    if count(found, BEGINS) != count(found, ENDS):
        wrong.append("the library is still in use")
    if raised != bool(alarm.where):
        wrong.append(f"the job gets {raised} exceptions")
    if used._given_up:
        wrong.append(f"the device is given up: {made.info.messages}")
    if interrupt_handler() != usual:
        wrong.append("SIGINT has another handler")
    return alarm.where, wrong, found


offset, usual = 0, interrupt_handler()
open(LOG, "a").close()
_, wrong, expected = train(None)
assert not wrong, (wrong, expected)
failures, tried = [], set()
for steps in (9, 0):
    while True:
        where, wrong, _ = train(tried, steps)
        if not where:
            break
        if wrong:
            failures.append([where, wrong])
            used._given_up = False
_, wrong, found = train(None)
if wrong or found != expected:
    failures.append(["afterwards", [*wrong, found]])
print(json.dumps({"places": len(tried), "failures": failures}))
