"""Compare the modules of a run's backward kernels with the truth from a twin run that noted which nodes ran when."""

import csv
import json
import statistics
from dataclasses import dataclass, field

NOTHING = "N/A"
#: type of the kernels with which the twin notes the running node
PROBE = "Atanh"


@dataclass
class Verdict:
    """The kernel time, in us, for each relation of the reported module to the true module."""

    passes: int = 0
    same: float = 0.0
    around: float = 0.0
    whole: float = 0.0
    unbound: float = 0.0
    wrong: float = 0.0
    outside: float = 0.0
    notes: dict = field(default_factory=dict)

    @property
    def total(self):
        return self.same + self.around + self.whole + self.unbound + self.wrong + self.outside

    @property
    def right(self):
        """Return the share of the time that is bound correctly and more closely than to the whole network."""
        return (self.same + self.around + self.outside) / self.total

    def __str__(self):
        kinds = ("same", "around", "whole", "unbound", "wrong", "outside")
        return "  ".join(f"{kind} {getattr(self, kind) / self.total:.3f}" for kind in kinds)


def table(result):
    """Return (start in us, duration in us, type, module) of a run's kernels, ordered by start."""
    with open(result / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv", newline="") as stream:
        rows = csv.DictReader(stream)
        return sorted(
            (float(row["Start Time(us)"]), float(row["Duration(us)"]), row["Type"], row.get("Module", NOTHING))
            for row in rows
        )


def truths(twin, file):
    """Return (type, module) of the kernels in the last pass of a twin."""
    begin, end, nodes = json.loads(file.read_text())[-1]
    found = []
    for start, _, kind, _ in table(twin):
        if begin <= start * 1000 <= end and kind != PROBE:
            owner = [module for at, _, module in nodes if at <= start * 1000]
            found.append((kind, owner[-1] if owner else None))
    return found


def compare(result, truth, skip=2):
    """Compare the passes of a run, without the first `skip`, with the truth about one pass.

    Each kernel counts with the median time of its place in the pass: on a busy machine, one may take a hundred times as
    long.
    """
    rows, wanted, verdict = table(result), [kind for kind, _ in truth], Verdict()
    kinds, place = [row[2] for row in rows], 0
    passes = []
    while place + len(wanted) <= len(kinds):
        if kinds[place : place + len(wanted)] != wanted:
            place += 1
            continue
        passes.append(rows[place : place + len(wanted)])
        place += len(wanted)
    verdict.passes = len(passes)
    usual = [statistics.median(row[1] for row in each) for each in zip(*passes[skip:], strict=True)]
    for each in passes[skip:]:
        for (_, _, kind, module), (_, owner), time in zip(each, truth, usual, strict=True):
            what = judge(module, owner)
            setattr(verdict, what, getattr(verdict, what) + time)
            if what in ("wrong", "unbound", "whole"):
                verdict.notes[what, kind, owner, module] = verdict.notes.get((what, kind, owner, module), 0) + time
    return verdict


def judge(module, owner):
    if owner is None:
        return "outside" if module == NOTHING else "wrong"
    if module == NOTHING:
        return "unbound"
    if module == owner:
        return "same"
    if owner.startswith(f"{module}."):
        return "around" if "." in module else "whole"
    return "wrong"
