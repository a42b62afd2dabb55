"""`ms-profiler collect DIR TARGET`: copy the results of this machine to a place that all machines share."""

import argparse

from ms_profiler.errors import DependencyError

NAME = "collect"
HELP = "copy the results of this machine to a shared directory or an object store"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("directories", nargs="+", metavar="DIR", help="the directory that the job wrote, or a result")
    parser.add_argument("target", metavar="TARGET", help="receives the results: a directory, or s3://BUCKET/JOB")


def run(args: argparse.Namespace) -> int:
    """Copy the results, and print the number of results at the target.

    Raises:
        StoreError: there is no result, or the target cannot be written.
        UsageError: a result is not on this machine.
        DependencyError: Polars, or a package for the address, is not installed.
    """
    try:
        from ms_profiler.analysis.cluster import gathered_files, storage
    except ModuleNotFoundError as error:
        raise DependencyError(f"Collecting results needs Polars ({error}).") from error
    done = gathered_files.copy(storage.find(args.directories), args.target)
    for remark in done.remarks:
        print(remark)
    count = len(done.results)
    print(
        f"{count} result{'s' * (count != 1)} in {args.target}; {done.files} file{'s' * (done.files != 1)} copied, "
        f"{done.bytes / 1e6:.1f} MB."
    )
    return 0
