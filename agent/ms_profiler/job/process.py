"""The identity of this process in its job: rank, parent, and the directory to write to.

This module reads the environment and /proc, and calls no framework.
"""

import binascii
import os
import posix
import sys
from _io import open
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ms_profiler import paths
from ms_profiler.option_types import rank_ranges
from ms_profiler.store import alive, layout
from ms_profiler.version import VERSION

#: For each launcher: the variable of the rank, the variables of the world size, and those of the local rank. The
#: frameworks' own launchers come first. MindSpore's own profiler takes its rank from RANK_ID.
_LAUNCHERS = (
    ("RANK_ID", ("RANK_SIZE", "MS_WORKER_NUM"), ("LOCAL_RANK", "DEVICE_ID")),
    ("RANK", ("WORLD_SIZE",), ("LOCAL_RANK",)),
    ("OMPI_COMM_WORLD_RANK", ("OMPI_COMM_WORLD_SIZE",), ("OMPI_COMM_WORLD_LOCAL_RANK",)),
    ("PMIX_RANK", ("OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"), ("SLURM_LOCALID",)),
    ("PMI_RANK", ("PMI_SIZE",), ("MPI_LOCALRANKID", "PMI_LOCAL_RANK")),
    ("MV2_COMM_WORLD_RANK", ("MV2_COMM_WORLD_SIZE",), ("MV2_COMM_WORLD_LOCAL_RANK",)),
    # a batch script has SLURM_PROCID 0, too, but is no rank: it has no SLURM_STEP_NUM_TASKS
    ("SLURM_PROCID", ("SLURM_STEP_NUM_TASKS",), ("SLURM_LOCALID",)),
)
#: Variable that Kubernetes sets in every pod.
_POD = "KUBERNETES_SERVICE_HOST"
#: Variables that name one launch: the same in all of its ranks on a host.
_LAUNCH_NAMES = (
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "PMIX_NAMESPACE",
    "TORCHELASTIC_RUN_ID",
    "MASTER_PORT",
    "MS_SCHED_PORT",
)
#: Rank variables of the launchers that never give two launches the same name.
_NAMED_ONCE = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID")


class Identity(NamedTuple):
    """The place of a process in its job.

    Attributes:
        rank: number among all ranks of the job; while this is unknown, the number among the ranks of this host.
        local_rank: number among the ranks of this host.
        world_size: number of ranks of the job.
        device_id: number of the accelerator that the launcher assigned.
        role: MindSpore's MS_ROLE, empty outside of a distributed job.
        job: name of the launch, the same for all its ranks on one host; usable in a file name.
        ranked: whether a launcher assigned the rank.
        known: whether the rank is known: the launcher assigned it, or the job has only one rank.
    """

    rank: int
    local_rank: int
    world_size: int
    device_id: int
    role: str
    job: str
    ranked: bool
    known: bool = True

    def selected(self, spec: str) -> bool:
        """Return whether the resolved option `ranks` selects this process; True while its rank is unknown."""
        return not self.known or selected(spec, self.rank, self.world_size)


def identity(environ: Mapping[str, str]) -> Identity:
    """Return the identity of this process, as its launcher describes it in the environment."""
    rank, world, local, variable = _rank(environ)
    device = _number(environ, ("DEVICE_ID", "LOCAL_RANK"))
    return Identity(
        rank=rank,
        local_rank=local,
        world_size=world,
        device_id=device if device is not None else local,
        role=environ.get("MS_ROLE", ""),
        job=_job(environ, world, variable),
        ranked=bool(variable),
        known=bool(variable) or world == 1,
    )


def _rank(environ: Mapping[str, str]) -> tuple[int, int, int, str]:
    """Return rank, world size, local rank, and the name of the variable that has the rank; the name is "" if none has.

    The rank of a worker in MindSpore's dynamic cluster is in MS_NODE_ID, not in RANK_ID. msrun sets both variables.
    Without --node_rank, msrun sets neither, and MindSpore assigns the ranks when the cluster is complete. On the node
    of the scheduler, the workers then have RANK_ID=0, which msrun set for the scheduler (measured with MindSpore 2.10).
    """
    if environ.get("MS_ROLE") == "MS_WORKER":
        node, workers = _number(environ, ("MS_NODE_ID",)), _number(environ, ("MS_WORKER_NUM",)) or 1
        place = _number(environ, ("LOCAL_RANK", "DEVICE_ID"))
        if node is not None:
            return node, max(workers, node + 1), node if place is None else place, "MS_NODE_ID"
        if workers > 1:
            # until the ranks are assigned, use the number that most probably distinguishes the processes
            return _number(environ, ("RANK_ID",)) or place or 0, workers, place or 0, ""
    for name, sizes, locals_ in _LAUNCHERS:
        rank, size = _number(environ, (name,)), _number(environ, sizes)
        if rank is None or (name == "SLURM_PROCID" and size is None):
            continue
        local = _number(environ, locals_)
        # on Kubernetes, each pod is a host with one process, whose local rank is 0
        alone = 0 if environ.get(_POD) else rank
        return rank, max(size or 1, rank + 1), alone if local is None else local, name
    return 0, 1, 0, ""


def _number(environ: Mapping[str, str], names: Sequence[str]) -> int | None:
    for name in names:
        text = environ.get(name, "").strip()
        if text.isascii() and text.isdigit() and len(text) < 10:
            return int(text)
    return None


def _job(environ: Mapping[str, str], world: int, variable: str) -> str:
    """Return a name for the launch: the launcher's own name for it, the pid of the parent process, or both.

    The name alone is not enough: msrun uses the same port again, and torchrun calls every launch "none". The parent
    alone is not enough either: under SLURM and MPI a shell may run between the launcher and each rank.
    """
    process = _started(posix.getpid() if world <= 1 else posix.getppid())
    if world <= 1:
        return process
    names = _names(environ)
    if not names or variable not in _NAMED_ONCE:
        names.append(process)
    return "".join(sign if sign.isascii() and sign.isalnum() else "_" for sign in "_".join(names))[-100:]


def launch(environ: Mapping[str, str]) -> int:
    """Return a number that is the same for all ranks of a launch, on all hosts; two launches may have the same one.

    The number comes from the launcher's names for the launch. If there are none, it comes from the parent process.
    """
    names = _names(environ)
    return binascii.crc32(os.fsencode("_".join(names) or _started(posix.getppid())))


def _names(environ: Mapping[str, str]) -> list[str]:
    return [environ[name] for name in _LAUNCH_NAMES if environ.get(name)]


def _started(pid: int) -> str:
    return f"{pid}_{alive.process_start(pid)}"


def selected(spec: str, rank: int, world_size: int) -> bool:
    """Return whether the resolved option `ranks` selects a rank."""
    if spec == "all":
        return True
    if spec.startswith("sample:"):
        count = int(spec[7:])
        # the ranks are divided into `count` groups; the first rank of group i, floor(i * world / count), is selected
        return count >= world_size or -(-rank * count // world_size) * world_size // count == rank
    return any(low <= rank <= high for low, high in rank_ranges(spec))


def machine() -> dict[str, str]:
    """Return the model of the processor and the number of processors, as far as the system reports them."""
    found = {"cores": str(posix.cpu_count() or "")}
    try:
        # the file may describe hundreds of processors; the first block describes the first processor
        with open("/proc/cpuinfo", "rb", buffering=0) as stream:
            lines = stream.read(4096).decode("ascii", "replace").split("\n\n")[0].splitlines()
    except OSError:
        return found
    fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    # on ARM, the file has numbers in place of the model's name
    arm = " ".join(fields[name] for name in ("CPU implementer", "CPU part") if name in fields)
    model = fields.get("model name") or (f"ARM {arm}" if arm else "")
    return found | ({"cpu": model} if model else {})


def product_version() -> str:
    """Return the version of this product."""
    return VERSION


def free_threaded() -> bool:
    """Return whether this Python is a free-threaded build."""
    return "t" in sys.abiflags


def name(role: str) -> str:
    """Return multiprocessing's name for this process, or `role` for a child that multiprocessing did not start.

    Args:
        role: main, fork or spawn: how this process was started.
    """
    multiprocessing = sys.modules.get("multiprocessing.process")
    known = str(multiprocessing.current_process().name) if multiprocessing is not None else "MainProcess"
    return role if known == "MainProcess" else known


def daemons() -> list[int]:
    """Return the pids of multiprocessing's living daemon children, which it ends at the exit; do not wait for them."""
    return _children(daemon=True)


def _children(daemon: bool) -> list[int]:
    """Return the pids of multiprocessing's living children, either the daemons or the others; do not wait for them."""
    # `active_children` would collect the exit codes of ended children, which the job may need
    children = [*getattr(sys.modules.get("multiprocessing.process"), "_children", ())]
    pids = [child.pid for child in children if bool(child.daemon) is daemon and child.pid]
    return sorted(filter(alive.is_child, pids))


def after_children(call: Callable[[], None]) -> None:
    """Call a function at the exit of this process, after multiprocessing has waited for its children.

    Multiprocessing waits for its children in an exit function. Python calls exit functions in reverse order of
    registration. So an exit function of ms-profiler would run first, while the children still write records.

    Args:
        call: the function; called at once if multiprocessing has no child to wait for.
    """
    util = sys.modules.get("multiprocessing.util")
    if _children(daemon=False) and not getattr(util, "_exiting", True):
        util.Finalize(None, call, exitpriority=-100)  # type: ignore[union-attr]
    else:
        call()


def when_child_ends(call: Callable[[], None]) -> None:
    """Call a function when this process ends, if it is a child of multiprocessing that was forked.

    At the end of a forked child, multiprocessing runs its own finalizers and then calls `os._exit`. In such a child,
    Python's exit functions run only from Python 3.13 on. In a child of the fork server, they never run.

    Args:
        call: the function.
    """
    util, pid = sys.modules.get("multiprocessing.util"), posix.getpid()
    if util is None:
        return

    def finalize(_: object) -> None:
        if posix.getpid() == pid:
            util.Finalize(None, call, exitpriority=-100)

    finalize(None)
    # A child of the fork server imports the main module and forgets all finalizers. Then it calls the functions that
    # are registered here.
    util.register_after_fork(util, finalize)


def choose_output(path: str, base: str = "") -> tuple[str | None, str | None]:
    """Return the directory for the results, and a line to print if that is not the requested one; make the directory.

    A path that is itself a symbolic link is refused. In a shared directory, another user could make such a link and so
    choose where the job writes. Links in the folders above are followed.

    Args:
        path: the requested directory; `~` is expanded.
        base: the directory from which a relative path starts, by default the current one.

    Returns:
        The absolute path, or None if no directory can be used. The line to print, or None if the path is as requested.
    """
    try:
        chosen = paths.abspath(paths.join(base, paths.expanduser(path)))
        reason = "it is a symbolic link" if paths.islink(chosen) else _unusable(chosen)
    except FileNotFoundError:
        chosen, reason = path, "the current directory is gone"
    if not reason:
        return chosen, None
    temporary = paths.realpath(os.environ.get("TMPDIR") or "/tmp")
    failure = _unusable(temporary)
    refused = f"cannot write to output_path {path!a} ({reason})"
    if failure:
        return None, f"{refused} nor to {temporary} ({failure}): profiling is off"
    return temporary, f"{refused}: writing to {temporary} instead"


def _unusable(path: str) -> str:
    """Make the directory if it is missing; return why the job cannot write to it, empty if it can."""
    try:
        paths.makedirs(path, layout.DIRECTORY_MODE)
    except OSError as error:
        return error.strerror or type(error).__name__
    except ValueError as error:  # a NUL, or a surrogate that no file name can hold
        return str(error)
    return "" if posix.access(path, posix.W_OK | posix.X_OK) else "not writable"
