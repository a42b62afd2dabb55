"""Run jobs of PyTorch with an emulated Python, with and without the profiler, compare the two, and print the results.

    python tests/aarch64.py PYTHON FOLDER

`native/aarch64.sh` makes PYTHON. Each run has to end as it does without the profiler, see `torch_versions.both`. The
Python that runs this program analyses the recordings: qemu refuses to start a process for that.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

from conftest import PROGRAMS
from events import events, of
from ms_profiler.store.format import Category
from torch_versions import Version, both, expect

#: seconds that one run may take; the emulated import of PyTorch alone takes most of a minute
LIMIT: Final = 1200


def trains(python: str, folder: Path) -> str:
    """Train with a data loader, check the records, and return a text with the numbers of records."""
    (run,) = both(python, folder, [str(PROGRAMS / "torch_loops.py"), "plain"], analyse="off", limit=LIMIT)
    subprocess.run([sys.executable, "-m", "ms_profiler", "analyse", str(run.result)], check=True)
    summary = json.loads((run.result / "summary.json").read_text())
    expect("messages and hooks that failed", (summary["messages"], summary["hooks"]["failed"]), ([], {}))
    expect("steps", (summary["steps"]["count"], summary["steps"]["source"]), (12, "optimizer_cycle"))
    main = [event for event in events(str(run.result)) if event.process == "job"]
    names = ("Net", "Net.first", "Net.second", "Net.second.0", "Net.second.1")
    expect("modules", of(main, Category.MODULE), dict.fromkeys(names, 24))
    expect("backward passes", of(main, Category.BACKWARD), {"backward": 12})
    by = summary["framework"].get("operators", "none")
    expect("what reports operators", by, "RecordFunction")
    expect("operators of a module", of(main, Category.OP)["aten::linear"], 48)
    return f"12 steps, 120 calls of modules, operators by {by}: {sum(of(main, Category.OP).values())}"


def main() -> int:
    """Run the jobs, and raise BrokenError if a profiled job differs from its bare run."""
    python, folder = sys.argv[1], Path(sys.argv[2])
    version = Version(python, folder, LIMIT)
    print(f"PyTorch {version.built()}", flush=True)
    print(f"training: {trains(python, folder / 'plain')}", flush=True)
    print(f"two ranks: {version.ranks()}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
