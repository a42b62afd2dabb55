"""Parse a command line: find the interpreter that it starts, the interpreter's options, and the program."""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ms_profiler.doctor.finding import Finding, cause, note
from ms_profiler.job import helper
from ms_profiler.job.origin import VARIABLE

#: A command may start the interpreter through other programs, for example `#!/usr/bin/env python3`. `resolve` follows
#: at most this number of nested programs.
_NESTED = 4
_PYTHON = re.compile(r"(python|pypy)[\d.]*(t|d)?$")
#: Texts by which frozen programs are recognised, that is programs with an interpreter inside. They are in the loaders
#: of PyInstaller, Nuitka and cx_Freeze.
_FROZEN = (b"_MEIPASS", b"NUITKA_ONEFILE", b"__startup__.pyc")
_READ = 64 << 20
#: program that runs another command, such as `nice` -> its options that take a value
_WRAPPERS = {
    "nohup": "",
    "setsid": "",
    "time": "of",
    "nice": "n",
    "ionice": "cnp",
    "taskset": "",
    "numactl": "",
    "stdbuf": "ioe",
    "timeout": "ks",
}
#: program that runs a command on another machine or in another environment -> advice how to pass MS_PROFILER_OPTIONS to
#: the job
_ELSEWHERE = {
    "sudo": f"sudo --preserve-env={VARIABLE} ...",
    "docker": f"docker run -e {VARIABLE} ...",
    "podman": f"podman run -e {VARIABLE} ...",
    "ssh": f"set {VARIABLE} in the command that ssh runs",
    "srun": "srun --export=ALL ...",
}


@dataclass(frozen=True)
class Program:
    """A parsed command line.

    Attributes:
        python: the path of the interpreter; empty if none was found.
        words: the command line that starts the interpreter, split into words; the interpreter is the first word.
        environ: the environment variables with which the interpreter starts.
    """

    python: str
    words: tuple[str, ...]
    environ: Mapping[str, str]

    @property
    def flags(self) -> list[str]:
        """Return the options of the interpreter in the command line."""
        return list(self.words[1 : helper.arguments(self.words)])


def resolve(command: Sequence[str], environ: Mapping[str, str], directory: str) -> tuple[Program, list[Finding]]:
    """Find the interpreter that a command starts; if there is no interpreter, the findings say why.

    Args:
        command: the words of the command, which follow `--` in the call of `ms-profiler doctor`.
        environ: the environment variables with which the command would start.
        directory: the directory in which the command would start.
    """
    program = Program("", tuple(command), environ)
    for _ in range(_NESTED):
        words = program.words
        if not words:
            return program, [cause("command", f"{command[0]} is followed by no command.", "Name the job's command.")]
        name = os.path.basename(words[0])
        if name == "env":
            program = _env(program)
            continue
        if name in _WRAPPERS:
            program = replace(program, words=_behind(words, _WRAPPERS[name], positional=name in ("timeout", "taskset")))
            continue
        if name in _ELSEWHERE:
            text = f"{name} may start the job without {VARIABLE}."
            remedy = f"Pass it on: {_ELSEWHERE[name]}. Then ask `ms-profiler doctor PID` while the job runs."
            return program, [note("command", text, remedy)]
        path = shutil.which(words[0], path=program.environ.get("PATH")) if os.sep not in words[0] else words[0]
        path = os.path.join(directory, path) if path else None
        if path is None or not os.path.isfile(path):
            return program, [cause("command", f"There is no program {words[0]}.", "Is its name right, and on PATH?")]
        if _PYTHON.match(os.path.basename(path)):
            return replace(program, python=path, words=(path, *words[1:])), []
        behind = _interpreter(path)
        if behind is None:
            return program, [_not_python(path)]
        program = replace(program, words=(*behind, path, *words[1:]))
    return program, [note("command", f"{command[0]} starts more wrappers than doctor follows.")]


def _env(program: Program) -> Program:
    """Return the command that the program `env` starts, and the environment that `env` gives it, as in env(1)."""
    environ, words = dict(program.environ), list(program.words[1:])
    while words:
        word = words[0]
        name, equals, value = word.partition("=")
        if word in ("-i", "-", "--ignore-environment"):
            environ.clear()
        elif word in ("-u", "--unset") and len(words) > 1:
            environ.pop(words.pop(1), None)
        elif word.startswith("--unset="):
            environ.pop(value, None)
        elif equals and not name.startswith("-"):
            environ[name] = value
        elif word.startswith("-S"):
            words[1:1] = word[2:].split()
        elif not word.startswith("-"):
            break
        words.pop(0)
    return replace(program, words=tuple(words), environ=environ)


def _behind(words: Sequence[str], valued: str, positional: bool) -> tuple[str, ...]:
    """Return the command that a program such as `timeout` starts: the words after the program's own options.

    Args:
        words: the whole command line, beginning with the program.
        valued: the letters of the program's options that take a value.
        positional: whether one more word belongs to the program, for example the time of `timeout`.
    """
    rest = list(words[1:])
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word == "--":
            break
        if len(word) == 2 and word[1] in valued and rest:
            rest.pop(0)
    return tuple(rest[1:] if positional and rest else rest)


def _interpreter(path: str) -> list[str] | None:
    """Return the words of the first line of a script, after `#!`; None if the file is no script."""
    try:
        with open(path, "rb") as stream:
            line = stream.readline(1024)
    except OSError:
        return None
    if not line.startswith(b"#!"):
        return None
    return line[2:].decode("utf-8", "replace").split() or None


def _not_python(path: str) -> Finding:
    try:
        with open(path, "rb") as stream:
            content = stream.read(_READ)
    except OSError:
        content = b""
    if any(mark in content for mark in _FROZEN):
        text = f"{path} is a frozen program: its interpreter reads no site-packages and no PYTHONPATH."
        return cause("command", text, "Profile the script with an installed interpreter.")
    text = f"{path} is no Python interpreter and no Python script."
    return note("command", text, "If it starts one, run `ms-profiler doctor PID` while the job runs.")
