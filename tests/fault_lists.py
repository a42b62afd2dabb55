"""What may fail in a job: the functions of the extension, and the files that ms-profiler writes."""

import ast
import re

from conftest import ROOT

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
    "job/frameworks/side_file.py": [r"/networks(/|$)", r"/tapes(/|$)", r"/places(/|$)"],
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
