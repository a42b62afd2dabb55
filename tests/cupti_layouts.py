"""Compare our layouts, numbers and names of CUPTI's records with CUPTI's headers, by compiling assertions."""

import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

NATIVE = Path(__file__).parent.parent / "native"
HEADER = "cupti_activity.h"
RECORDS = NATIVE / "devices" / "cupti_records.c"
CALLS = NATIVE / "devices" / "cupti_calls.c"
#: our structure -> CUPTI's structure, without the number in its name, and the names of the fields in our order;
#: OURS:THEIRS for a field whose names differ
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
#: the fields of a memory set's record: those of a copy without the kind of the copy
SET = "bytes start end device:deviceId context:contextId stream:streamId correlation:correlationId graph:graphId"
#: our table of calls -> CUPTI's header with their numbers, and the begin of their names there
CALLED = {
    "launches": ("cupti_driver_cbid.h", "CUPTI_DRIVER_TRACE_CBID_"),
    "questions": ("cupti_runtime_cbid.h", "CUPTI_RUNTIME_TRACE_CBID_"),
}
#: our name of a number -> CUPTI's name
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
#: our table of texts -> (prefix of CUPTI's names, CUPTI's names of the entries in order, difference between the numbers
#: of neighbouring entries)
TEXTS = {
    "copies": (
        "MEMCPY_KIND_",
        "UNKNOWN HTOD DTOH HTOA ATOH ATOA ATOD DTOA DTOD HTOH PTOP",
        1,
    ),
    "waits": (
        "SYNCHRONIZATION_TYPE_",
        "UNKNOWN EVENT_SYNCHRONIZE STREAM_WAIT_EVENT STREAM_SYNCHRONIZE CONTEXT_SYNCHRONIZE",
        1,
    ),
    "memories": (
        "MEMORY_KIND_",
        "UNKNOWN PAGEABLE PINNED DEVICE ARRAY MANAGED DEVICE_STATIC MANAGED_STATIC",
        1,
    ),
    "operations": ("MEMORY_OPERATION_TYPE_", "INVALID ALLOCATION RELEASE", 1),
    "overheads": (
        "OVERHEAD_",
        "DRIVER_COMPILER CUPTI_BUFFER_FLUSH CUPTI_INSTRUMENTATION CUPTI_RESOURCE RUNTIME_TRIGGERED_MODULE_LOADING "
        "LAZY_FUNCTION_LOADING COMMAND_BUFFER_FULL ACTIVITY_BUFFER_REQUEST UVM_ACTIVITY_INIT",
        1 << 16,
    ),
}


def newest(header: str, name: str) -> str:
    """Return the full name of CUPTI's current structure: the one with the highest number at the end of its name."""
    numbers = re.findall(rf"\}} CUpti_Activity{name}(\d*);", header)
    if not numbers:
        raise LookupError(f"the header declares no CUpti_Activity{name}")
    return f"CUpti_Activity{name}{max(numbers, key=lambda number: int(number or 1))}"


def checks(header: str) -> list[str]:
    """Return the conditions that a header has to meet, as static assertions in C.

    Args:
        header: the text of `cupti_activity.h`.
    """
    found = [(f"{ours} == CUPTI_ACTIVITY_{theirs}", ours) for ours, theirs in NUMBERS.items()]
    for ours, (name, fields) in [*LAYOUTS.items(), ("copy_record", ("Memset", SET))]:
        theirs = newest(header, name)
        for own, other in (field.partition(":")[::2] for field in fields.split()):
            place = f"{theirs}, {other or own}"
            found.append((f"offsetof({ours}, {own}) == offsetof({place})", place))
    found += _texts(header)
    return [f'_Static_assert({holds}, "{what}");' for holds, what in found]


def _texts(header: str) -> Iterator[tuple[str, str]]:
    for table, (prefix, names, apart) in TEXTS.items():
        entries = [f"CUPTI_ACTIVITY_{prefix}{name}" for name in names.split()]
        yield f"sizeof {table} / sizeof *{table} == {len(entries)}", table
        for number, name in enumerate(entries):
            # An older header lacks some names, which are skipped. The kinds of overhead are multiples of 1 << 16,
            # except for the driver's compiler, which is 1.
            value = number * apart if apart == 1 or number else 1
            if re.search(rf"\b{name}\b", header):
                yield f"{name} == {value}", name


def _called(include: Path) -> Iterator[tuple[str, str]]:
    """Yield a condition for each number of a call in our tables that a header names, and the name."""
    text = CALLS.read_text()
    for table, (header, prefix) in CALLED.items():
        if not (include / header).exists():
            continue
        known = (include / header).read_text(errors="replace")
        rows = re.findall(r"(\d+),\s+/\* (\w+) \*/", text.partition(f" {table}[] = {{")[2].partition("};")[0])
        for number, name in rows:
            if re.search(rf"\b{prefix}{name}\b", known):
                yield f"{prefix}{name} == {number}", name


def differences(include: Path, folder: Path, after: Sequence[Path] = ()) -> tuple[int, str]:
    """Compare our layouts with the headers in a folder.

    Args:
        include: the folder with the headers.
        folder: the folder that receives the C program of the comparison.
        after: folders of further headers that these headers include.

    Returns:
        The number of comparisons, and the differences that the compiler reports as a text; empty if there are none.
    """
    found = checks((include / HEADER).read_text(errors="replace"))
    found += [f'_Static_assert({holds}, "{name}");' for holds, name in _called(include)]
    program = folder / "layouts.c"
    numbers = [f"#include <{header}>" for header, _ in CALLED.values() if (include / header).exists()]
    lines = ["#include <cuda.h>", f"#include <{HEADER}>", *numbers, f'#include "{RECORDS}"', *found]
    program.write_text("\n".join(lines) + "\n")
    command = ["cc", "-std=gnu11", "-fsyntax-only", f"-I{NATIVE}", f"-I{NATIVE / 'devices'}", f"-I{include}"]
    behind = [word for path in after for word in ("-idirafter", str(path))]
    done = subprocess.run([*command, *behind, str(program)], capture_output=True, text=True, check=False)
    if not done.returncode:
        return len(found), ""
    errors = [line for line in done.stderr.splitlines() if "error" in line]
    return len(found), "; ".join(errors) or done.stderr
