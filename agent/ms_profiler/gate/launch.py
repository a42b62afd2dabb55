"""Run the commands of the old and the new version alternately, and record only the data that the gate needs."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ms_profiler.analysis.driver import inputs
from ms_profiler.errors import StoreError, UsageError
from ms_profiler.gate.errors import IncompleteError

BASE, NEW = "base", "new"
#: Options with which the gate records the jobs. A job analyses nothing and prints nothing, because the gate reads its
#: recording later. `overhead_budget` is 0, so that every step is recorded. If only some steps were recorded, counts
#: would be missing, and the other steps would be faster.
OPTIONS = {"analyse": "off", "quiet": "true", "overhead_budget": "0"}
LOG = "output.txt"  #: file with the job's output, beside its result
#: time from SIGTERM to SIGKILL for a command that ran longer than it may, s
GRACE_S = 5
#: exit codes of a shell if a command may not be executed, or does not exist
_NO_COMMAND = (126, 127)
_TAIL = 5  #: if a command failed, the gate shows this number of lines at the end of its output


@dataclass(frozen=True)
class Planned:
    """One run that the gate has to make.

    Attributes:
        side: `BASE` for the old version, `NEW` for the new one.
        number: the number of the run among the runs of its side, from 1.
        command: the command line for the shell.
    """

    side: str
    number: int
    command: str


def order(commands: dict[str, str], repeat: int) -> Iterator[Planned]:
    """Yield the runs in the order ABBAABBA..., so that a steady drift of the machine's speed affects both sides alike.

    In the order ABAB, each run of B comes after a run of A. So a machine that gets slower as it warms up would make B
    slower.

    Args:
        commands: side -> its command line; one or two sides.
        repeat: the number of runs of each side.
    """
    for number in range(1, repeat + 1):
        sides = list(commands)
        for side in sides if number % 2 else reversed(sides):
            yield Planned(side, number, commands[side])


def launch(
    commands: dict[str, str], repeat: int, timeout: float, folder: str, say: Callable[[str], None]
) -> dict[str, list[str]]:
    """Run the commands and return the folders with their results, by side.

    Args:
        commands: side -> command line for `/bin/sh`.
        repeat: the number of runs of each side.
        timeout: longest time of a run, in seconds.
        folder: the folder that receives a folder for each run.
        say: called with a line of text for each run, to show the progress.

    Raises:
        IncompleteError: a run failed or took too long, so that nothing can be compared.
        UsageError: there is no such command.
    """
    folders: dict[str, list[str]] = {side: [] for side in commands}
    planned = list(order(commands, repeat))
    for index, run in enumerate(planned, 1):
        place = os.path.join(folder, f"{run.side}_{run.number}")
        os.makedirs(place)
        took = _run(run, place, timeout)
        say(f"run {index} of {len(planned)} ({run.side}) took {took:.1f} s")
        folders[run.side].append(place)
    return folders


def _run(run: Planned, place: str, timeout: float) -> float:
    log = os.path.join(place, LOG)
    options = [word for key, value in OPTIONS.items() for word in ("--option", f"{key}={value}")]
    program = [sys.executable, "-m", "ms_profiler", "run", "--output-path", place, *options]
    start = time.monotonic()
    with open(log, "wb") as output:
        # The command gets a process session of its own, so that the gate can end it with all its children.
        process = subprocess.Popen(
            [*program, "--", "/bin/sh", "-c", run.command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            _end(process)
            remedy = "Make the job shorter, or allow it more time with --timeout SECONDS."
            raise IncompleteError(f"`{run.command}` had not ended after {timeout:g} s.", remedy) from None
        except BaseException:
            _end(process)
            raise
    if code in _NO_COMMAND:
        raise UsageError(f"`{run.command}` cannot be run:{_tail(log)}", "Does a shell in this folder find it?")
    if code:
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        raise IncompleteError(f"`{run.command}` {how}:{_tail(log)}", "A job that fails has no figures to compare.")
    try:
        inputs.find([place])
    except StoreError:
        remedy = f"`ms-profiler doctor -- {run.command}` says why."
        raise IncompleteError(f"`{run.command}` ended without an error and recorded nothing.", remedy) from None
    return time.monotonic() - start


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a command and all its children."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def _tail(log: str) -> str:
    with open(log, encoding="utf-8", errors="replace") as stream:
        lines: Sequence[str] = stream.read().splitlines()
    shown = [line for line in lines if line.strip()][-_TAIL:]
    return "".join(f"\n    {line[:200]}" for line in shown) + ("\n" if shown else " it printed nothing.")
