"""`ms-profiler doctor`: tell which devices can be traced here, and what keeps one from it."""

import argparse
import textwrap

NAME = "doctor"
HELP = "tell which devices can be traced on this machine, and what keeps one from it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command: there are none."""


def run(args: argparse.Namespace) -> int:
    """Print a paragraph for each interface; return 0 whatever was found: a machine without a device is a sound one."""
    from ms_profiler.job.devices.survey import survey

    for finding in survey():
        lines = [f"{finding.source} ({finding.devices}): {'not usable' if finding.why else 'usable'}"]
        if finding.where:
            version = f", version {finding.version}" if finding.version else ""
            lines.append(f"library {finding.where}{version}")
        if finding.count:
            lines.append(f"devices {finding.count}")
        if finding.why:
            lines.append(finding.why)
        if finding.limits:
            lines.append(finding.limits)
        print("\n".join([lines[0], *(textwrap.indent(line, "    ") for line in lines[1:])]))
    return 0
