"""Recognise processes that inherit MS_PROFILER_OPTIONS but are not part of the job; they are not profiled.

ms-profiler decides this at the start of each interpreter, before anything of the job is imported. It looks at the
command line and at the variable MS_ROLE.
"""

from ms_profiler import paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Programs that never train, without their version. A suffix ".py" is part of the name: "ld" is in this list, so the
#: linker is not profiled, but a script "ld.py" of the user is.
PROGRAMS = frozenset(
    """
    pip pipx conda mamba micromamba virtualenv uv poetry pyproject-build _in_process.py
    ninja cmake ctest cpack meson cython cythonize f2py ms-profiler
    cc gcc g++ c++ clang clang++ ccache distcc nvcc bisheng ccec ld
    """.split()  # noqa: SIM905 - forty lines otherwise
)
#: Top-level modules that never train when run with -m.
MODULES = frozenset(
    """
    pip pipx conda ensurepip virtualenv venv uv ninja cmake mesonbuild ziglang
    py_compile compileall cython cffi ms_profiler
    """.split()  # noqa: SIM905 - forty lines otherwise
)
#: Programs and modules that start the job in other processes. Some of them import the framework, but do not train.
LAUNCHERS = frozenset(
    (
        *("msrun", "mindspore.parallel.cluster.run"),
        *("torchrun", "torch.distributed.run", "torch.distributed.launch", "torch.backends.xeon.run_cpu"),
        *("accelerate", "accelerate-launch", "accelerate.commands.accelerate_cli", "accelerate.commands.launch"),
        *("deepspeed", "deepspeed.pt", "deepspeed.launcher.runner", "deepspeed.launcher.launch"),
        *("composer", "composer.cli.launcher", "colossalai", "fabric", "horovodrun"),
    )
)
#: Folders of scripts that a framework starts itself, to compile kernels and to generate operators. PyTorch's compile
#: workers import all of PyTorch when Triton is installed.
COMPILERS = {
    "/mindspore/_extends/": "MindSpore",
    "/mindspore/_akg/": "MindSpore",
    "/mindspore/ops_generate/": "MindSpore",
    "/torch/_inductor/": "PyTorch",
    "/torch/_vendor/quack/": "PyTorch",
}
#: Before it compiles, PyTorch until 2.12 runs a small program that tests which instructions the processor has. The
#: source of this program begins with these words.
INSTRUCTIONS = "import torch\nfrom ctypes import cdll\ncdll.LoadLibrary("

FORK_SERVER = "multiprocessing's fork server"

_FLAGS_WITH_VALUE = "WX"


def program(command: "Sequence[str]") -> tuple[str, str]:
    """Return the program of an interpreter's command line: ("-c", code), ("-m", module) or ("", path).

    Args:
        command: the command line with the interpreter first, as `sys.orig_argv` has it. The path is "" for an
            interactive interpreter and "-" for one that reads its standard input.
    """
    index = arguments(command)
    if index == len(command):
        return "", ""
    word = command[index]
    if not word.startswith("-") or word == "-":
        return "", word
    position = min(at for at, flag in enumerate(word) if flag in "cm")
    return f"-{word[position]}", word[position + 1 :] or (command[index + 1] if index + 1 < len(command) else "")


def arguments(command: "Sequence[str]") -> int:
    """Return where the interpreter's own options end: the index of the path, or of the word with -c or -m.

    Args:
        command: the command line with the interpreter first.
    """
    index = 1
    while index < len(command):
        word = command[index]
        if not word.startswith("-") or word == "-":
            return index
        if word.startswith("--"):
            index += 2 if word == "--check-hash-based-pycs" else 1
            continue
        for position, flag in enumerate(word[1:], 2):
            if flag in "cm":
                return index
            if flag in _FLAGS_WITH_VALUE:
                index += 0 if word[position:] else 1
                break
        index += 1
    return len(command)


def is_tool(command: "Sequence[str]") -> str:
    """Return which tool this process is; empty if it is none. In tools, ms-profiler does nothing at all."""
    how, what = program(command)
    if how == "-c":
        return "multiprocessing's resource tracker" if ".resource_tracker import main" in what else ""
    name, known = (what.partition(".")[0], MODULES) if how else (_name(what), PROGRAMS)
    return f"the tool {name}" if name in known else ""


def is_companion(command: "Sequence[str]", environ: "Mapping[str, str]") -> str:
    """Return which kind of helper of a job this process is; empty if it is none.

    A helper may import the framework. But the framework's own profiler must not start in a helper.
    """
    how, what = program(command)
    if environ.get("MS_ROLE") == "MS_SCHED":
        return "the scheduler of a distributed job"
    if how == "-c":
        if ".forkserver import main" in what:
            return FORK_SERVER
        if what.lstrip().startswith(INSTRUCTIONS):
            return "a compiler of PyTorch"
        return "MindSpore's search for its kernel compiler" if "mindspore._extends.remote" in what else ""
    if (what if how else _name(what)) in LAUNCHERS or what.endswith("/mindspore/parallel/cluster/run.py"):
        return "the launcher of a distributed job"
    path = what.replace(".", "/") if how else what
    framework = next((COMPILERS[folder] for folder in COMPILERS if folder in f"/{path}"), "")
    return f"a compiler of {framework}" if framework else ""


def is_helper(command: "Sequence[str]", environ: "Mapping[str, str]") -> str:
    """Return why a process is not profiled; empty if it may be profiled."""
    return is_tool(command) or is_companion(command, environ)


def _name(path: str) -> str:
    """Return the name of a program without folder and version: "pip" for "/usr/bin/pip3.11"."""
    name = paths.basename(path)
    return name.rstrip("0123456789.-") or name
