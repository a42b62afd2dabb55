"""Analyse damaged copies of results, and print a line of JSON for each that ends otherwise than it may.

It may end with a result or with one error of ours, within seconds and without much memory.
usage: damaged_results.py SEED FIRST COUNT SECONDS SOURCE...
"""

import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from pathlib import Path

from damage import damage
from ms_profiler.analysis.driver import engine
from ms_profiler.errors import MsProfilerError

#: bytes that the whole process may address: threads of Polars reserve much of it
MEMORY = 6 << 30

seed, first, count, seconds = sys.argv[1], *map(int, sys.argv[2:5])
sources = [Path(name) for name in sys.argv[5:]]
resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


class TooLongError(BaseException):
    """An analysis takes too long; a class that nothing of ours catches."""


def late(*_):
    raise TooLongError


signal.signal(signal.SIGALRM, late)
ended = {"result": 0, "error": 0}
for number in range(first, first + count):
    wait = random.Random(f"{seed} {number}")
    with tempfile.TemporaryDirectory() as folder:
        source = sources[number % len(sources)]
        target = Path(folder) / source.name
        told = damage(wait, source, target)
        signal.alarm(seconds)
        try:
            done = engine.analyse([target], forms=["db"] if number % 5 == 0 else [])
            ended["result"] += 1
            if any("\n" in result.warning for result in done):
                print(json.dumps({"number": number, "told": told, "source": str(source), "error": done[0].warning}))
        except MsProfilerError as error:
            ended["error"] += 1
            if "\n" in str(error):
                print(json.dumps({"number": number, "told": told, "source": str(source), "error": str(error)}))
        except BaseException:  # noqa: BLE001 - of Rust, too
            signal.alarm(0)
            text = traceback.format_exc()
            print(json.dumps({"number": number, "told": told, "source": str(source), "error": text}), flush=True)
            if os.environ.get("KEEP"):
                kept = Path(os.environ["KEEP"]) / str(number)
                shutil.rmtree(kept, ignore_errors=True)
                kept.mkdir(parents=True)
                damage(random.Random(f"{seed} {number}"), source, kept / source.name)
        finally:
            signal.alarm(0)
print(json.dumps(ended))
