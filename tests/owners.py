"""Compare the modules in a run's kernel table with the modules that the kernels' shapes determine."""

import csv
import json
import statistics
from collections import defaultdict
from dataclasses import dataclass, field

NOTHING = "N/A"


@dataclass
class Score:
    """Sums of kernel time in us.

    Attributes:
        right: time of kernels whose module in the table is the one that their shapes determine.
        wrong: time of kernels whose module in the table contradicts their shapes.
        known: time of all kernels whose shapes determine a module.
        total: time of all kernels.
        bound: time of all kernels with a module in the table.
        mistakes: time of the wrong kernels by (name, planted part, module).
    """

    right: float = 0.0
    wrong: float = 0.0
    known: float = 0.0
    total: float = 0.0
    bound: float = 0.0
    mistakes: dict = field(default_factory=dict)


def truth(shapes, planted):
    """Return the planted part of the network that the sizes in a kernel's shapes determine.

    If the sizes belong to several parts, the part around all of them counts. Return None if there is no such part.
    """
    operands = shapes.replace('"', "").split(";")
    sizes = {int(text) for each in operands for text in each.split(",") if text.strip().isdigit()}
    parts = {planted[size] for size in (*sizes, *operands) if size in planted}
    outer = {part for part in parts if all(f"{other}.".startswith(f"{part}.") for other in parts)}
    return min(outer, key=len) if outer else None


def score(path, planted, keep=lambda row: True):
    """Compare the modules in `kernel_details.csv` with the planted parts.

    The time of a kernel is the median time of the kernels with its name and shapes. On a busy machine, any one of them
    may take a hundred times as long.

    Args:
        path: the table.
        planted: {size: path of the part whose tensors have this size}.
        keep: a function that returns whether a row of the table counts.
    """
    found = Score()
    planted = {int(size) if size.isdigit() else size: part for size, part in planted.items()}
    with open(path, newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if keep(row)]
    durations = defaultdict(list)
    for row in rows:
        durations[row["Name"], row.get("Input Shapes")].append(float(row["Duration(us)"]))
    usual = {kind: statistics.median(times) for kind, times in durations.items()}
    for row in rows:
        time = usual[row["Name"], row.get("Input Shapes")]
        found.total += time
        module = row.get("Module", NOTHING)
        found.bound += time * (module != NOTHING)
        part = truth(row.get("Input Shapes", ""), planted)
        if part is None:
            continue
        found.known += time
        if f".{part}." in f".{module}.":
            found.right += time
        elif module != NOTHING and not outer(module, part):
            found.wrong += time
            key = row["Name"], part, module
            found.mistakes[key] = found.mistakes.get(key, 0.0) + time
    return found


def outer(module, part):
    """Return whether a module encloses a part of the network.

    It does if its path ends with the first names of the part's path, or if the module is the whole network.
    """
    names, parts = module.split("."), part.split(".")
    return any(names[-count:] == parts[:count] for count in range(1, len(parts))) or not any(
        name in parts or name.isdigit() for name in names
    )


def planted(output):
    return json.loads(output.strip().splitlines()[-1])
