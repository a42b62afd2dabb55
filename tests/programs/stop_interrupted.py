"""Stop a profiler, and raise an exception in each place of ms-profiler where Python may call a signal handler.

usage: stop_interrupted.py FOLDER
"""

import json
import sys
from pathlib import Path

import torch
from interruption import Interruption
from ms_profiler.api import capture
from ms_profiler.job import recording, session

network = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
tried, count = set(), 0
while True:
    folder, owner = Path(sys.argv[1], str(count)), torch.nn.Module()
    made = capture.Capture({"output_path": str(folder), "analyse": "off"}, None, lambda _: None, owner, False)
    made.start()
    for _ in range(3):
        network(torch.randn(4, 8)).sum().backward()
        optimizer.step()
    alarm = Interruption([capture, session, recording], tried)
    reached = alarm.during("stop", made.stop)
    ends = [json.loads(path.read_text()) for path in folder.rglob("process_info.json")]
    good = len(made.results) == 1 and not made._session.recordings and [end["state"] for end in ends] == ["ended"]
    # an exception before the end of the recording begins leaves the recording open
    if reached != alarm.raised or not (good or alarm.where.startswith("stop: _change")):
        print(alarm.where, reached, made.results, made._session.recordings, ends)
    if not alarm.raised:
        break
    count += 1
    if made._session.recordings:
        made._session._end()
print("interrupted often" if count > 20 else count)
