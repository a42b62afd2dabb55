"""Run a job bare and profiled in an environment that a test chooses, and return both outcomes."""

import os
import subprocess
import sys
from pathlib import Path

from conftest import environment

STAND_INS = str(Path(__file__).parent / "stand_ins")
#: options without an analysis, so that a profiled job ends soonest
OFF = {"analyse": "off"}


class Guest:
    """A job in a directory of its own.

    Args:
        folder: the folder of the job.
        real: whether the job imports the real framework; without it, the job imports a stand-in.
    """

    def __init__(self, folder, real=False):
        self.folder = folder
        self.output = folder / "data"
        self.real = real

    def start(self, program, options=None, profile=True, env=None, **channels):
        """Start a program and return its process.

        Args:
            program: the source text of the program.
            options: options of the profiler, besides those that start it.
            profile: whether the program is profiled.
            env: further environment variables.
            channels: arguments of Popen, such as `stdout`.
        """
        chosen = {"start": True, "output_path": str(self.output)} | (options or {})
        extra = {} if self.real else {"PYTHONPATH": STAND_INS}
        channels.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.Popen(
            [sys.executable, "-c", program],
            env=environment(chosen if profile else None, **extra, **(env or {})),
            cwd=self.folder,
            **channels,
        )

    def both(self, program, channels=dict, options=None):
        """Run a program bare and then profiled.

        Args:
            program: the source text of the program.
            channels: a function that returns arguments of Popen for a run, such as `stdout`. Its optional entry `after`
                is a function that returns further values to compare.
            options: the options of the profiled run.

        Returns:
            For each run, the exit code, stdout, stderr and the value of `after`.
        """
        results = []
        for profile in False, True:
            given = {"stdout": subprocess.PIPE} | channels()
            after = given.pop("after", lambda: None)
            process = self.start(program, options or OFF, profile, **given)
            out, err = process.communicate(timeout=60)
            results.append((process.returncode, out, err, after()))
        assert list(self.output.glob("*_ascend_ms")), "it was profiled"
        return results


def lines_of(text):
    """Return the profiler's lines in the bytes of stderr, without their prefix."""
    prefix = b"ms-profiler: "
    return [line[len(prefix) :].decode() for line in text.splitlines() if line.startswith(prefix)]


def closed_pipe():
    """Return the writing end of a pipe whose reading end is closed."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer
