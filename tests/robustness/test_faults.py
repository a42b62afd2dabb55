"""Every function of the extension and every file fails once: the job is unharmed, and the failure is reported."""

import json
import subprocess
import sys

from conftest import PROGRAMS, environment
from fault_lists import ELSEWHERE, FILES, REFUSALS, entries
from ms_profiler.store import layout

RAISING = [*sorted(entries() - set(ELSEWHERE)), "Wrapper"]
FAULTS = [
    *(f"raises:{name}" for name in RAISING),
    *(f"refuses:{name}={json.dumps(value)}" for name, values in REFUSALS.items() for value in values),
    *(f"file:{pattern}" for patterns in FILES.values() if isinstance(patterns, list) for pattern in patterns),
]


def outcomes(folder):
    """Run a child for each fault, and return {fault: the child's report}, with all messages under "reported"."""
    command = [sys.executable, str(PROGRAMS / "failing_entries.py"), str(folder), "bare", *FAULTS]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=550, check=False)
    found = {line["fault"]: line for line in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 0 and set(found) == {"bare", *FAULTS}, done.stderr
    for line in found.values():
        line["reported"] = line["err"]
        for result in (folder / str(line["pid"])).glob("*_ascend_ms"):
            for path in (layout.run_info_path(result), *result.glob("FRAMEWORK/process_*/process_info.json")):
                try:
                    with open(path) as stream:
                        info = json.load(stream)
                except OSError:
                    continue
                line["reported"] += json.dumps(
                    [info.get(key) for key in ("messages", "not_collected", "missing", "hooks")]
                )
    return found


def test_each_entry_of_the_extension_and_each_file_fails_in_turn(tmp_path):
    found = outcomes(tmp_path)
    bare = found["bare"]
    for fault in FAULTS:
        line = found[fault]
        assert (line["code"], line["result"], line["error"]) == (bare["code"], bare["result"], ""), line
        others = [text for text in line["err"].splitlines() if not text.startswith("ms-profiler: ")]
        assert others == bare["err"].splitlines(), line
        assert line["reached"], f"the training does not ask for {fault}"
        # if the announcement fails, no message says so: children then make results of their own
        if fault.startswith(("raises", "file")) and "announced" not in fault:
            assert "planted" in line["reported"] or "Input/output error" in line["reported"], line
