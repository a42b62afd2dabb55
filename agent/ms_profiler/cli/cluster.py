"""`ms-profiler cluster DIR`: say which rank of a job is late, why, and which ranks wait for it."""

import argparse
import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING

from ms_profiler.errors import DependencyError, StoreError, UsageError

if TYPE_CHECKING:
    from ms_profiler.analysis.cluster.engines import Engine

NAME = "cluster"
HELP = "say which rank of a job is late, why, and which ranks wait for it; write cluster_analysis_output"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "directories",
        nargs="+",
        metavar="DIR",
        help="the directory of the results of all ranks, or its address: s3://...",
    )
    parser.add_argument(
        "--job",
        metavar="RESULT",
        default="",
        help="analyse the job to which this result belongs, if DIR has several jobs (default: the newest job)",
    )
    parser.add_argument("--json", action="store_true", help="print the facts as JSON instead of the page")
    parser.add_argument(
        "--output", metavar="DIR", help="receives cluster_analysis_output; by default the (first) directory"
    )
    parser.add_argument("--no-files", action="store_true", help="write no files")
    parser.add_argument(
        "--engine",
        choices=("local", "dask"),
        default="local",
        help="the engine that reads the ranks (default: local processes)",
    )
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="address of the Dask scheduler, such as tcp://HOST:8786, for --engine dask",
    )
    parser.add_argument("--max-process-number", type=int, metavar="N", help="use N processes at most")


def run(args: argparse.Namespace) -> int:
    """Print what a comparison of all ranks shows, and write the files that msprof-analyze would write.

    Raises:
        StoreError: there is no result that can be read.
        UsageError: options contradict each other.
        DependencyError: Polars or Rich is not installed, or Dask where it is requested.
    """
    try:
        from ms_profiler.analysis.cluster import gathering, job_summary, parallel_files, storage, vendor_files
        from ms_profiler.analysis.report import all_ranks, terminal
    except ModuleNotFoundError as error:
        raise DependencyError(f"An analysis of all ranks needs Polars, orjson and Rich ({error}).") from error
    with _engine(args) as engine:
        job = gathering.gather(storage.find(args.directories), engine, args.job)
        content = job_summary.summary(job)
        if not args.no_files:
            target = args.output or args.directories[0]
            try:
                with storage.written(target) as folder:
                    left_out, links = vendor_files.write(args.directories[0], folder, engine, job.others)
                    parallel_files.write(job, folder)
            except OSError as error:
                raise StoreError(
                    f"{os.path.join(target, vendor_files.FOLDER)} cannot be written ({error.strerror}).",
                    "Name another directory with --output.",
                ) from error
            content["slow_links"] = [asdict(link) for link in links]
            content["remarks"] += [text for text in left_out if text not in content["remarks"]]
    if args.json:
        print(json.dumps(content, indent=1))
    else:
        all_ranks.show(content, terminal.page())
    return 0


def _engine(args: argparse.Namespace) -> "Engine":
    from ms_profiler.analysis.cluster import dask_engine, engines

    if args.engine == "local":
        if args.scheduler:
            raise UsageError("--scheduler needs --engine dask.", "Add --engine dask, or leave --scheduler out.")
        return engines.Local(args.max_process_number)
    if not args.scheduler:
        raise UsageError("--engine dask needs --scheduler ADDRESS.", "As --scheduler tcp://HOST:8786.")
    return dask_engine.Distributed(args.scheduler)
