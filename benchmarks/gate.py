"""Test `ms-profiler gate` with real training jobs: equal versions, versions with a planted change, and single runs.

usage: gate.py FOLDER [CASE ...]
       gate.py FOLDER --judge

A case is FRAMEWORK-KIND-NUMBER, for example `torch-layer-0`; `CASES` has all. Without a case, the program runs all of
them; each takes about 40 s. The recordings stay in FOLDER, and a later call skips the cases that FOLDER already has. At
the end, the program prints a table of all recordings in FOLDER. With --judge, it prints only this table.
"""

import json
import os
import re
import subprocess
import sys
import time

PYTHON = sys.executable
JOB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gate_job.py")
REPEAT = 5
#: planted change -> pattern that the largest cause must match in the gate's answer
PLANTED = {
    "layer": r"\b2\b",
    "data": r"data",
    "sync": r"item|scalar|asnumpy|sync|Mul|read",
    "recompile": r"compil",
    "collective": r"exchang|all_?reduce",
}
BASES = {"recompile": "compiled", "collective": "ranks"}
CASES = [
    *(f"{framework}-none-{number}" for number in range(10) for framework in ("torch", "mindspore")),
    *(f"torch-{kind}-0" for kind in PLANTED),
    "torch-layer-1",
    *(f"mindspore-{kind}-0" for kind in ("layer", "data", "sync", "recompile")),
    "torch-copy-0",
    "mindspore-copy-0",
]


def command(framework, kind):
    """Return the shell command that runs a job of a framework with a planted change."""
    if kind in ("ranks", "collective"):
        launcher = f"{PYTHON} -m torch.distributed.run --nproc_per_node=2 --master_port=29{os.getpid() % 900 + 100}"
        return f"{launcher} {JOB} {framework} {kind}"
    return f"{PYTHON} {JOB} {framework} {kind}"


def gate(*words):
    """Run `ms-profiler gate` with these arguments; return its exit code and its JSON document."""
    done = subprocess.run(
        [PYTHON, "-m", "ms_profiler", "gate", *words, "--json", "-"], stdout=subprocess.PIPE, text=True, check=False
    )
    return done.returncode, json.loads(done.stdout) if done.stdout else {}


def run(folder, case):
    """Run one case, if its folder does not exist yet; store its recordings, and its duration in seconds."""
    framework, kind, _ = case.split("-")
    place = os.path.join(folder, case)
    if os.path.exists(place):
        return
    words = ["--repeat", "1" if kind == "copy" else str(REPEAT), "--output", place]
    begin = time.monotonic()
    base = command(framework, BASES.get(kind, "none"))
    code, _ = gate("--base", base, "--new", command(framework, kind), *words)
    took = time.monotonic() - begin
    with open(os.path.join(place, "took.json"), "w") as stream:
        json.dump({"seconds": took, "code": code}, stream)
    print(f"{case}: exit code {code}, {took:.0f} s", flush=True)


def judge(folder):
    """Print the verdict of every case that has run, and the counts of false alarms and of found changes."""
    alarms = equal = found = planted = named = causes = 0
    for case in CASES:
        place = os.path.join(folder, case)
        if not os.path.exists(os.path.join(place, "took.json")):
            continue
        with open(os.path.join(place, "took.json")) as stream:
            took = json.load(stream)["seconds"]
        names = sorted(os.listdir(place))
        base, new = ([os.path.join(place, name) for name in names if name.startswith(side)] for side in ("base", "new"))
        code, document = gate("--runs", *base, "--versus", *new)
        kind = case.split("-")[1]
        step = next((one for one in document.get("metrics", ()) if one["name"] == "step time"), None)
        first = (document.get("why") or {}).get("contributors", [{}])[:1]
        cause = first[0].get("what", "") if first else ""
        line = f"{case:24} {code} {document.get('verdict', '?'):13} {took:4.0f} s"
        if step and step["low"] is not None:
            line += f"  {step['base']:7.2f} ms {step['ratio'] - 1:+6.1%}"
            line += f" ({step['low'] - 1:+.1%} to {step['high'] - 1:+.1%})"
        if kind == "none":
            equal, alarms = equal + 1, alarms + (code == 1)
        else:
            planted, found = planted + 1, found + (code == 1)
            if kind in PLANTED:  # not for a copy: the gate finds it by its count, because a copy takes no time
                causes += 1
                right = bool(re.search(PLANTED[kind], cause))
                named += right
                line += f"  {'named' if right else 'NOT NAMED'}: {cause}"
        print(line + "".join(f"\n    {reason}" for reason in document.get("reasons", ())), flush=True)
    print(
        f"equal sides: {alarms} alarms in {equal}; planted: {found} of {planted} found, {named} of {causes} named first"
    )


def main(folder, *words):
    """Run the given cases, except with `--judge`; then judge all recordings in the folder."""
    os.makedirs(folder, exist_ok=True)
    if words != ("--judge",):
        for case in words or CASES:
            run(folder, case)
    judge(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
