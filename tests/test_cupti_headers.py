"""Our layouts of CUPTI's records and its numbers are those of its own headers, where this machine has some."""

import glob
import re
import subprocess
from pathlib import Path

import pytest

NATIVE = Path(__file__).parent.parent / "native"
#: our structure -> the name of CUPTI's without its number, and its fields by ours
LAYOUTS = {
    "kernel_record": (
        "Kernel",
        "start end completed device:deviceId context:contextId stream:streamId grid[0]:gridX block[0]:blockX "
        "correlation:correlationId name graph:graphId",
    ),
    "copy_record": (
        "Memcpy",
        "copy:copyKind bytes start end device:deviceId context:contextId stream:streamId correlation:correlationId "
        "graph:graphId",
    ),
    "peer_record": (
        "MemcpyPtoP",
        "copy:copyKind bytes start end device:deviceId context:contextId stream:streamId correlation:correlationId",
    ),
    "call_record": ("API", "number:cbid start end process:processId thread:threadId correlation:correlationId"),
    "memory_record": (
        "Memory",
        "operation:memoryOperationType memory:memoryKind correlation:correlationId bytes time:timestamp "
        "device:deviceId context:contextId stream:streamId",
    ),
    "overhead_record": ("Overhead", "what:overheadKind start end"),
    "wait_record": (
        "Synchronization",
        "what:type start end correlation:correlationId context:contextId stream:streamId",
    ),
    "graph_record": (
        "GraphTrace",
        "correlation:correlationId start end device:deviceId graph:graphId context:contextId stream:streamId",
    ),
}
#: a set is read as a copy, but for the kinds, which it has not
SET = "bytes start end device:deviceId context:contextId stream:streamId correlation:correlationId graph:graphId"
#: our numbers -> CUPTI's
NUMBERS = {
    "CUPTI_MEMCPY": "KIND_MEMCPY",
    "CUPTI_MEMSET": "KIND_MEMSET",
    "CUPTI_KERNEL": "KIND_KERNEL",
    "CUPTI_DRIVER": "KIND_DRIVER",
    "CUPTI_RUNTIME": "KIND_RUNTIME",
    "CUPTI_CONCURRENT_KERNEL": "KIND_CONCURRENT_KERNEL",
    "CUPTI_OVERHEAD": "KIND_OVERHEAD",
    "CUPTI_MEMCPY_PEER": "KIND_MEMCPY2",
    "CUPTI_SYNCHRONIZATION": "KIND_SYNCHRONIZATION",
    "CUPTI_MEMORY": "KIND_MEMORY2",
    "CUPTI_GRAPH_TRACE": "KIND_GRAPH_TRACE",
}


def newest(text, name):
    """Return CUPTI's current structure of a name: that with the highest number."""
    numbers = re.findall(rf"\}} CUpti_Activity{name}(\d*);", text)
    assert numbers, name
    return f"CUpti_Activity{name}{max(numbers, key=lambda number: int(number or 1))}"


@pytest.mark.parametrize("folder", glob.glob("/usr/local/cuda*/include") or [None])
def test_layouts_and_numbers(folder, tmp_path):
    header = Path(folder or "/", "cupti_activity.h")
    if not header.exists():
        pytest.skip("there are no headers of CUPTI here")
    text = header.read_text(errors="replace")
    checks = [f"_Static_assert({ours} == CUPTI_ACTIVITY_{theirs}, #{ours});" for ours, theirs in NUMBERS.items()]
    checks = [check.replace(f"#{ours}", f'"{ours}"') for check, ours in zip(checks, NUMBERS, strict=True)]
    for ours, (name, fields) in [*LAYOUTS.items(), ("copy_record", ("Memset", SET))]:
        theirs = newest(text, name)
        for field in fields.split():
            own, _, other = field.partition(":")
            same = f"offsetof({ours}, {own}) == offsetof({theirs}, {other or own})"
            checks.append(f'_Static_assert({same}, "{theirs}.{other or own}");')
    program = tmp_path / "layouts.c"
    program.write_text(
        "\n".join(["#include <cuda.h>", "#include <cupti_activity.h>", '#include "devices/cupti_records.c"', *checks])
    )
    command = ["cc", "-std=gnu11", "-fsyntax-only", f"-I{NATIVE}", f"-I{NATIVE / 'devices'}", f"-I{folder}", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(checks) > 60
