"""`ms-profiler view DIR`: show reports in a browser, with a button that opens the timeline in Perfetto."""

import argparse
import os
import tempfile
import webbrowser

from ms_profiler.errors import DependencyError, UsageError

NAME = "view"
HELP = "show reports in a browser, from a server on 127.0.0.1"
_HIGHEST = 65535


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "directories", nargs="+", metavar="DIR", help="a result directory, a parent of several, or a trace"
    )
    parser.add_argument("--port", type=_port, default=0, help="port of 127.0.0.1; by default a free one")
    parser.add_argument("--no-browser", action="store_true", help="print the address and open no browser")


def run(args: argparse.Namespace) -> int:
    """Serve the pages with the reports until the user presses Ctrl-C.

    Raises:
        DependencyError: a required package is not installed.
        StoreError: a directory holds nothing that can be read.
        UsageError: the port is taken.
    """
    try:
        from ms_profiler.analysis.driver import engine
        from ms_profiler.analysis.page import server, shelves
    except ModuleNotFoundError as error:
        raise DependencyError(f"A report needs Polars ({error}).") from error
    paths = engine.find(args.directories)
    with tempfile.TemporaryDirectory(prefix="ms_profiler_") as folder:
        shelf = shelves.shelf(paths, folder)
        try:
            serving = server.Server(shelf, args.port)
        except OSError as error:
            raise UsageError(
                f"Port {args.port} of 127.0.0.1 cannot be used: {os.strerror(error.errno or 0)}.",
                "Name another with --port, or none.",
            ) from error
        with serving:
            print(serving.url, flush=True)
            print("Ctrl-C ends it.", flush=True)
            if not args.no_browser:
                webbrowser.open(serving.url)
            serving.serve_forever()
    return 0


def _port(text: str) -> int:
    number = int(text)
    if not 0 <= number <= _HIGHEST:
        raise argparse.ArgumentTypeError(f"a port from 0 to {_HIGHEST}, not {text}")
    return number
