"""Record while the store's files are truncated, or while a SIGBUS arrives. argv: recorder or none, folder, event"""

import faulthandler
import mmap
import os
import signal
import sys
import threading
import time
from pathlib import Path

KIND, FOLDER, EVENT = sys.argv[1], Path(sys.argv[2]), sys.argv[3]


def caught():
    """Return whether this process has a handler for SIGBUS."""
    (mask,) = (line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if "SigCgt" in line)
    return bool(int(mask, 16) >> (signal.SIGBUS - 1) & 1)


def truncate():
    for path in FOLDER.glob("*.seg"):
        os.truncate(path, 0)
    os.truncate(FOLDER / "account", 0)


def fault():
    """Read from a mapped file of the job that has been truncated, which raises SIGBUS."""
    path = FOLDER.parent / "own"
    path.write_bytes(bytes(1 << 16))
    with path.open("r+b") as stream:
        own = mmap.mmap(stream.fileno(), 0)
        os.truncate(path, 0)
        return own[1 << 12]


heard = []
before = caught()
if EVENT == "faulthandler":
    faulthandler.enable()
elif EVENT == "handler":
    signal.signal(signal.SIGBUS, lambda *_: heard.append("SIGBUS"))
if KIND != "none":
    from recorders import make

    recorder = make(KIND)
    recorder.open(str(FOLDER), first_slots=64, account=str(FOLDER / "account"), limit=10**9)
    name = recorder.intern("x")

    def record(count):
        for number in range(count):
            recorder.end(recorder.begin(name, 1, number))
            if number % 100 == 0:
                recorder.intern(f"string {threading.get_native_id()} {number}")

    record(5000)

match EVENT:
    case "truncate":
        on = True

        def work():
            while on:
                record(1000)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(10):
            truncate()
            record(2000)
            time.sleep(0.005)
        on = False
        for thread in threads:
            thread.join()
        recorder.close()
        stats = recorder.stats()
        print("dropped" if stats.dropped > stats.dropped_limit and stats.failure else "written again")
        print("handler" if caught() != before else "no handler")
    case "own page" | "faulthandler":
        print("alive", flush=True)
        fault()
    case "sent":
        os.kill(os.getpid(), signal.SIGBUS)
    case "handler":
        os.kill(os.getpid(), signal.SIGBUS)
        print(heard, flush=True)
        if KIND != "none":
            recorder.close()
        os.kill(os.getpid(), signal.SIGBUS)
        print(heard, flush=True)
    case "fork":
        child = os.fork()
        if not child:
            fault()
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
