"""Every function of the extension and every file fails once: the job is unharmed, and the failure is reported."""

import ast
import json
import re
import subprocess
import sys

from conftest import PROGRAMS, ROOT, environment
from ms_profiler.store import layout

JOB_SIDE = ROOT / "agent" / "ms_profiler"

#: function of the extension that a recorder without a device calls -> results that mean a failure
REFUSALS = {
    "begin": [0],
    "intern": [0],
    "intern_one_of": [0],
    "record": [False],
    "connect_operators": ["planted"],
    "scratch": [False],
    "sample_stacks": [False],
    "block_places": [False],
    "msp_open": [12, 28],
    "msp_close": [5],
    "msp_room": [0],
    "msp_helper_answers": [False],
    "msp_metrics_read": [False],
    "msp_exit_status": [12],
}
#: function of the extension that a short training on a processor does not call -> the test that calls it
ELSEWHERE = {
    "msp_trace_ready": "test_source.py",
    "msp_trace_attach": "test_source.py",
    "msp_trace_record": "test_source.py",
    "msp_trace_flush": "test_source.py",
    "msp_trace_detach": "test_source.py",
    "msp_trace_count": "test_source.py",
    "msp_start_apart": "test_handover.py",
    "msp_exit_wait": "test_handover.py",
    "trace_calls": "test_traced_calls.py",
    "trace_no_calls": "test_traced_calls.py",
    "profile_hook": "test_traced_calls.py",
    "trace_new_threads": "test_traced_calls.py",
    "calls_seen": "test_traced_calls.py",
    "msp_helper_rest": "test_patience.py",
    "msp_blocks_leave": "test_tensor_memory.py",
    "msp_set_aside": "test_max_disk.py",
    "fine": "test_recorder.py",
    "instant": "test_recorder.py",
    "anchor": "test_recorder.py",
    "thread_name": "test_recorder.py",
    "hand_over_region": "test_torch_ops.py",
    "optimizer_steps": "test_torch.py",
    "anonymize": "test_anonymize.py",
}
#: Module of the job that writes files -> patterns of the files' paths. If a short training does not write the files,
#: the value is the test that writes them.
FILES = {
    "store/run_info.py": [r"run_info\.json", r"process_info\.json"],
    "job/kinship.py": [r"/announced$"],
    "job/frameworks/networks.py": [r"/networks(/|$)"],
    "job/frameworks/side_file.py": [r"/tapes(/|$)", r"/places(/|$)"],
    "job/recording.py": [r"_ascend_ms$", r"/FRAMEWORK$", r"/logs$", r"/process_\d+$"],
    "job/handover.py": "test_handover.py",
    "job/frameworks/mindspore/compiled.py": "test_disk.py",
    "job/control/dynamic_file.py": "test_dynamic_file.py",
    "job/recorder/python_account.py": "test_disk.py",
    "job/recorder/segment_file.py": "test_disk.py",
    "api/analyse.py": "test_api_analyse.py",
    "store/exit_status.py": "test_disk.py",
    "job/frameworks/mindspore/kernels.py": "test_mindspore_kernels.py",
    "job/frameworks/mindspore/pipeline.py": "test_mindspore_pipeline.py",
}


def entries():
    """Return the names of the extension's functions that the job calls, from the extension's stub."""
    tree = ast.parse((JOB_SIDE / "_native.pyi").read_text())
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    (library,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "_Library"]
    return functions | {node.name for node in library.body if isinstance(node, ast.FunctionDef)}


def writing():
    """Return the modules of the job that open files for writing or make directories, by their text."""
    found = set()
    for place in ("job", "store", "api"):
        for path in (JOB_SIDE / place).rglob("*.py"):
            if re.search(r"O_CREAT|O_WRONLY|O_RDWR|posix\.mkdir\(|, \"w\"|\"wb\"", path.read_text()):
                found.add(str(path.relative_to(JOB_SIDE)))
    return found


RAISING = [*sorted(entries() - set(ELSEWHERE)), "Wrapper"]
FAULTS = [
    *(f"raises:{name}" for name in RAISING),
    *(f"refuses:{name}={json.dumps(value)}" for name, values in REFUSALS.items() for value in values),
    *(f"file:{pattern}" for patterns in FILES.values() if isinstance(patterns, list) for pattern in patterns),
]


def test_the_lists_are_complete():
    assert set(REFUSALS) <= entries() and set(ELSEWHERE) <= entries()
    assert set(FILES) == writing()
    named = [*ELSEWHERE.values(), *(file for file in FILES.values() if isinstance(file, str))]
    assert all((ROOT / "tests" / name).exists() for name in named)


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
