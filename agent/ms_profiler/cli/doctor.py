"""`ms-profiler doctor`: say why a job left no result, or less than expected."""

import argparse
import json
import os
import sys
import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING

from ms_profiler.errors import UsageError
from ms_profiler.log import visible

if TYPE_CHECKING:
    from ms_profiler.doctor.finding import Finding
    from ms_profiler.job.devices.survey import Finding as Device

NAME = "doctor"
HELP = "say why a job left no result; examines a command, a running process, a result directory, or this machine"

_MARKS = {"cause": "!!", "note": " -", "ok": "ok"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.add_argument(
        "what",
        nargs=argparse.REMAINDER,
        metavar="DIR | PID | -- COMMAND",
        help="a result or the parent of several, a process that runs, or the command that starts the job; "
        "without any of them: this environment, and which devices can be traced",
    )


def run(args: argparse.Namespace) -> int:
    """Print the findings about a job; return 1 if one of them explains why nothing is recorded.

    Raises:
        UsageError: there is no such directory or process.
    """
    devices: list[Device] | None = None
    words: list[str] = args.what
    if words[:1] == ["--"]:
        from ms_profiler.doctor import command

        findings = command.examine(words[1:], os.environ, os.getcwd())
    elif len(words) > 1:
        raise UsageError(f"doctor takes one directory or process, not {len(words)}.", "Write `--` before a command.")
    elif words:
        findings = _named(words[0])
    else:
        from ms_profiler.doctor import interpreter, variable
        from ms_profiler.job.devices.survey import survey

        findings = [
            *variable.examine(os.environ, os.getcwd()),
            *interpreter.examine(sys.executable, [], os.environ, os.getcwd()),
        ]
        devices = survey()
    causes = any(finding.state == "cause" for finding in findings)
    if args.json:
        content: dict[str, object] = {"findings": [finding.as_dict() for finding in findings]}
        if devices is not None:
            content["devices"] = [asdict(device) for device in devices]
        print(json.dumps(content, indent=1))
    else:
        print(visible("\n".join([*_lines(findings), *_devices(devices or [])])))
    # Without arguments, the command examines this machine and environment in general. Then no finding is a fault: the
    # machine may have no device, and profiling may be switched off.
    return int(causes and bool(words))


def _named(word: str) -> "list[Finding]":
    if word.isdecimal() and not os.path.exists(word):
        from ms_profiler.doctor import running

        return running.examine(int(word))
    from ms_profiler.doctor import result

    return result.examine(word)


def _lines(findings: "list[Finding]") -> list[str]:
    """Return the findings as lines: causes first, then notes, then parts that work."""
    lines = []
    for state, mark in _MARKS.items():
        for finding in findings:
            if finding.state == state:
                lines.append(f"{mark} {finding.about}: {finding.text}")
                if finding.remedy:
                    lines.append(f"     {finding.remedy}")
    return lines


def _devices(devices: "list[Device]") -> list[str]:
    lines = []
    for finding in devices:
        lines.append(f"{finding.source} ({finding.devices}): {'not usable' if finding.why else 'usable'}")
        below = []
        if finding.where:
            version = f", version {finding.version}" if finding.version else ""
            below.append(f"library {finding.where}{version}")
        if finding.count:
            below.append(f"devices {finding.count}")
        below += [text for text in (finding.why, finding.limits) if text]
        lines += [textwrap.indent(line, "    ") for line in below]
    return lines
