"""Compare the modules of kernels, known by their shapes, with those in a run's tables."""

import csv
import json
import statistics
from collections import defaultdict
from dataclasses import dataclass, field

NOTHING = "N/A"


@dataclass
class Score:
    """Kernel time in us of kernels whose owner the shapes determine: the right part, the wrong part, and the sum."""

    right: float = 0.0
    wrong: float = 0.0
    told: float = 0.0
    total: float = 0.0
    bound: float = 0.0
    mistakes: dict = field(default_factory=dict)


def truth(shapes, planted):
    """Return the only part that has these sizes; None where no part or several parts have them."""
    operands = shapes.replace('"', "").split(";")
    sizes = {int(text) for each in operands for text in each.split(",") if text.strip().isdigit()}
    parts = {planted[size] for size in (*sizes, *operands) if size in planted}
    outer = {part for part in parts if all(f"{other}.".startswith(f"{part}.") for other in parts)}
    return min(outer, key=len) if outer else None


def score(path, planted, keep=lambda row: True):
    """Compare `kernel_details.csv` with the planted owners, {size: path}.

    A kernel counts as long as those of its name and shapes usually take: on a busy machine, any one of them may take a
    hundred times as long.
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
        found.told += time
        if f".{part}." in f".{module}.":
            found.right += time
        elif module != NOTHING and not outer(module, part):
            found.wrong += time
            key = row["Name"], part, module
            found.mistakes[key] = found.mistakes.get(key, 0.0) + time
    return found


def outer(module, part):
    """Return whether a module is around a part: its path ends with the first name of the part, or it is the whole
    network.
    """
    names, parts = module.split("."), part.split(".")
    return any(names[-count:] == parts[:count] for count in range(1, len(parts))) or not any(
        name in parts or name.isdigit() for name in names
    )


def planted(output):
    return json.loads(output.strip().splitlines()[-1])
