"""Run a job bare and profiled, in an environment that a test chooses, and compare the two."""

import os
import subprocess
import sys
from pathlib import Path

from conftest import environment

STAND_INS = str(Path(__file__).parent / "stand_ins")
#: options without analysis, which give the fastest end
OFF = {"analyse": "off"}


class Guest:
    """A job in a directory of its own.

    Args:
        folder: the folder of the job.
        real: whether the job uses the real framework, rather than a stand-in.
    """

    def __init__(self, folder, real=False):
        self.folder = folder
        self.output = folder / "data"
        self.real = real

    def start(self, program, options=None, profile=True, env=None, **channels):
        """Start a program; `env` has further variables, `channels` are those of Popen."""
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
        """Return exit code, stdout and the other values of `channels()` for a bare run and for a profiled one.

        Args:
            program: the source text of the program.
            channels: returns the channels of a run, in which `after`, if it is there, returns what else to compare.
            options: the options of the profiled run.
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
    """Return our lines in a text of stderr, without their prefix."""
    prefix = b"ms-profiler: "
    return [line[len(prefix) :].decode() for line in text.splitlines() if line.startswith(prefix)]


def closed_pipe():
    """Return the writing end of a pipe without a reader."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer
