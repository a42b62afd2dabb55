"""Count how often `ms-profiler cluster` names the late rank and its cause, and no rank in balanced jobs.

usage: late_ranks.py FOLDER [ROUNDS [LAUNCHER[,LAUNCHER] [KIND...]]]

Launchers are torchrun, msrun-graph and msrun-pynative; kinds are input, computing, sleep, stop and none. Each job has
four processes. Rank 1 is late, except in jobs of kind none. The program prints the finding of `ms-profiler cluster` for
each job. The jobs stay in FOLDER: the program judges a job that FOLDER already has, and does not run it again.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

TOOLS = Path(sys.executable).parent
PROGRAMS = Path(__file__).parent.parent / "tests" / "programs"
LAUNCHERS = ("torchrun", "msrun-graph", "msrun-pynative")
#: planted fault -> cause that `ms-profiler cluster` must report
CAUSES = {"input": "data", "computing": "computing", "sleep": "blocked", "stop": "stopped", "none": None}
RANKS, LATE = 4, 1


def command(launcher: str, kind: str, folder: Path) -> list[str]:
    """Return the command that starts a job under a launcher."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    if launcher == "torchrun":
        words = [TOOLS / "torchrun", f"--nproc_per_node={RANKS}", f"--master_port={port}"]
        return [*map(str, words), str(PROGRAMS / "late_ranks_torch.py"), kind, str(LATE)]
    words = [TOOLS / "msrun", f"--worker_num={RANKS}", f"--local_worker_num={RANKS}", "--join=True"]
    words += [f"--master_port={port}", f"--log_dir={folder / 'log'}", PROGRAMS / "late_ranks_mindspore.py"]
    return [*map(str, words), kind, str(LATE), launcher.partition("-")[2]]


def wrong(found: dict, kind: str) -> list[str]:
    """Return the errors in a JSON document of `ms-profiler cluster`, as texts; an empty list if it is right."""
    late = [(each["rank"], each["cause"]) for each in found["late"]]
    busy = [rank for rank, cause in late if cause == "runnable"]
    named = [each for each in late if each[0] not in busy]
    errors = [] if named == ([] if CAUSES[kind] is None else [(LATE, CAUSES[kind])]) else [f"named {named}"]
    roles = {row["rank"]: row["role"] for row in found["ranks"]}
    if CAUSES[kind] is not None:
        errors += [
            f"rank {rank} is {role}"
            for rank, role in roles.items()
            if rank not in busy and role != ("late" if rank == LATE else "waits")
        ]
    return errors


def main(folder: Path, rounds: int, launchers: list[str], kinds: list[str]) -> None:
    """Run the jobs that the folder lacks, judge all jobs, and print how many findings are right."""
    right = {(launcher, kind): 0 for launcher in launchers for kind in kinds}
    counted = dict(right)
    busy = 0
    for number in range(rounds):
        for launcher, kind in right:
            place = folder / f"{launcher}-{kind}-{number}"
            if not (place / "done").exists():
                shutil.rmtree(place, ignore_errors=True)
                place.mkdir(parents=True)
                options = {"start": True, "output_path": str(place / "data"), "quiet": True}
                environ = {**os.environ, "MS_PROFILER_OPTIONS": json.dumps(options)}
                environ["PATH"] = f"{TOOLS}{os.pathsep}{environ['PATH']}"
                with open(place / "out", "w") as stream:
                    subprocess.run(
                        command(launcher, kind, place), env=environ, cwd=place, stdout=stream, stderr=stream, check=True
                    )
                (place / "done").touch()
            words = [str(TOOLS / "ms-profiler"), "cluster", str(place / "data"), "--json", "--no-files"]
            found = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
            errors = wrong(found, kind)
            right[launcher, kind] += not errors
            counted[launcher, kind] += 1
            busy += any(each["cause"] == "runnable" for each in found["late"])
            print(f"{place.name}: {'; '.join(errors) or 'right'}: {found['verdict']}", flush=True)
    for (launcher, kind), count in right.items():
        print(f"{launcher}, {kind}: {count} of {counted[launcher, kind]} right")
    print(f"in {busy} of {sum(counted.values())} jobs a rank waited for processors")


if __name__ == "__main__":
    where, *words = sys.argv[1:]
    chosen = words[1].split(",") if words[1:] else list(LAUNCHERS)
    main(Path(where), int(words[0]) if words else 10, chosen, words[2:] or list(CAUSES))
