"""Start distributed jobs as a user would."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from conftest import environment

TOOLS = Path(sys.executable).parent


def free_port():
    """Return an unused port of this host."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def msrun(directory, program, *arguments, options=None, workers=2):
    """Run a program under msrun in `directory`; return the lines that each worker prints, without MindSpore's log.

    Args:
        directory: the directory of the job; the logs go into `log` below it.
        program: the script.
        arguments: the arguments of the script.
        options: the options of the profiler; None for a run without the profiler.
        workers: the number of workers.
    """
    command = [TOOLS / "msrun", f"--worker_num={workers}", f"--local_worker_num={workers}", "--join=True"]
    command += [f"--master_port={free_port()}", f"--log_dir={directory / 'log'}", program, *map(str, arguments)]
    launched([command], directory, options)
    return [printed(directory / "log" / f"worker_{worker}.log") for worker in range(workers)]


def launched(commands, directory, options):
    """Run several launchers at once and wait for them; fail if one of them fails.

    Args:
        commands: the commands of the launchers.
        directory: the directory in which they run.
        options: the options of the profiler; None for a run without the profiler.
    """
    variables = environment(options, PATH=f"{TOOLS}{os.pathsep}{os.environ['PATH']}", MS_PROFILER_RAISE="1")
    launchers = [
        subprocess.Popen(
            command,
            env=variables,
            cwd=directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        for command in commands
    ]
    try:
        for launcher in launchers:
            out, _ = launcher.communicate(timeout=200)
            assert launcher.returncode == 0, out
    finally:
        for launcher in launchers:
            try:
                os.killpg(launcher.pid, signal.SIGKILL)  # ends workers that still run after their launcher
            except ProcessLookupError:
                pass


def printed(log):
    """Return the lines of a worker's log file that MindSpore's own log did not write."""
    return [line for line in log.read_text().splitlines() if line and not line.startswith("[")]
