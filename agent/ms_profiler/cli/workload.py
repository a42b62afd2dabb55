"""Command-line options for facts that no recording contains: how many operations and tokens a step has."""

import argparse

from ms_profiler.analysis.metrics.utilization import Workload

_OPTIONS = {
    "flops_per_step": "floating-point operations that the model needs for a step of this process, for MFU",
    "peak_flops": "floating-point operations a second that its device can do, for MFU",
    "tokens_per_step": "tokens, or samples, of a step of this process, for tokens a second",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options for the numbers of operations and tokens of a step."""
    for name, text in _OPTIONS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, metavar="NUMBER", help=text)


def workload(args: argparse.Namespace) -> Workload:
    """Return the numbers of operations and tokens that the arguments state.

    Args:
        args: the parsed arguments of the command.

    Raises:
        UsageError: a number is not positive.
    """
    return Workload(**{name: getattr(args, name) for name in _OPTIONS})
