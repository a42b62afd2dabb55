"""Write a made-up result into the directory that the variable names, without training, for a test of the gate.

usage: made_job.py FACTOR|fail|hang|nothing|abrupt

The steps in the result are FACTOR times as long as the usual ones. After `abrupt`, the result lacks the end of the
process, as after `os._exit(0)`.
"""

import json
import os
import pathlib
import random
import sys
import time

from ms_profiler.gate import made_runs

kind = sys.argv[1]
if kind == "fail":
    print("no such data set")
    sys.exit(7)
if kind == "hang":
    time.sleep(600)
if kind != "nothing":
    folder = json.loads(os.environ["MS_PROFILER_OPTIONS"])["output_path"]
    number = time.time_ns() // 10**6 % 10**6
    factor = 1.0 if kind == "abrupt" else float(kind)
    steps = made_runs.durations(made_runs.Noise(0.002, factor), random.Random(number))[:20]
    result = made_runs.write(folder, number, steps)
    if kind == "abrupt":
        for record in pathlib.Path(result).rglob("process_info.json"):
            record.write_text(json.dumps(json.loads(record.read_text()) | {"state": "running", "end": ""}))
