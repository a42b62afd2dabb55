"""The identity of this process in its job: rank, parent, and the directory to write to.

Everything is read from the environment and /proc, without calling a framework.
"""

import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ms_profiler.option_types import rank_ranges
from ms_profiler.store import alive, layout
from ms_profiler.version import VERSION

#: rank, world size, local rank: the variables of each launcher, the framework's own first. MindSpore's own profiler
#: takes its rank from RANK_ID.
_LAUNCHERS = (
    ("RANK_ID", ("RANK_SIZE", "MS_WORKER_NUM"), ("LOCAL_RANK", "DEVICE_ID")),
    ("RANK", ("WORLD_SIZE",), ("LOCAL_RANK",)),
    ("OMPI_COMM_WORLD_RANK", ("OMPI_COMM_WORLD_SIZE",), ("OMPI_COMM_WORLD_LOCAL_RANK",)),
    ("PMIX_RANK", ("OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"), ("SLURM_LOCALID",)),
    ("PMI_RANK", ("PMI_SIZE",), ("MPI_LOCALRANKID", "PMI_LOCAL_RANK")),
    ("MV2_COMM_WORLD_RANK", ("MV2_COMM_WORLD_SIZE",), ("MV2_COMM_WORLD_LOCAL_RANK",)),
    # last, and only with SLURM_STEP_NUM_TASKS: a batch script sees SLURM_PROCID 0 without being a rank
    ("SLURM_PROCID", ("SLURM_STEP_NUM_TASKS",), ("SLURM_LOCALID",)),
)
#: Variable of every pod of Kubernetes.
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
#: Variables of launchers that never give two launches the same name.
_NAMED_ONCE = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID")


class Identity(NamedTuple):
    """The place of a process in its job.

    Attributes:
        rank: number among all processes of the job; while it is unknown, the number among those of this host.
        local_rank: number among those of this host.
        world_size: number of ranks.
        device_id: number of the accelerator that the launcher assigned.
        role: MindSpore's MS_ROLE, empty outside of a distributed job.
        job: name of the launch, the same for all its ranks on one host; usable in a file name.
        ranked: whether a launcher assigned the rank.
        known: whether the rank is known: the launcher gave it, or there is only one.
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
        """Return whether the resolved option `ranks` selects this process; it does where the rank is not known."""
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
    """Return rank, world size, local rank, and the variable that gave the rank, empty where none did.

    A worker of MindSpore's dynamic cluster has the rank MS_NODE_ID and not RANK_ID; msrun sets both. Without a
    --node_rank, msrun sets neither. On the node of the scheduler, RANK_ID=0 remains from the start of the scheduler.
    The ranks are then assigned when the cluster is complete (measured with MindSpore 2.10).
    """
    if environ.get("MS_ROLE") == "MS_WORKER":
        node, workers = _number(environ, ("MS_NODE_ID",)), _number(environ, ("MS_WORKER_NUM",)) or 1
        place = _number(environ, ("LOCAL_RANK", "DEVICE_ID"))
        if node is not None:
            return node, max(workers, node + 1), node if place is None else place, "MS_NODE_ID"
        if workers > 1:
            # until then the number that most probably distinguishes the processes
            return _number(environ, ("RANK_ID",)) or place or 0, workers, place or 0, ""
    for name, sizes, locals_ in _LAUNCHERS:
        rank, size = _number(environ, (name,)), _number(environ, sizes)
        if rank is None or (name == "SLURM_PROCID" and size is None):
            continue
        local = _number(environ, locals_)
        # operators of Kubernetes number pods of one process each
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
    """Name the launch: the launcher's name for it, and the pid of the parent of a launched process.

    The name alone is not enough: msrun uses the same port again, and torchrun calls every launch "none". The parent
    alone is not enough either: under SLURM and MPI a shell may run between the launcher and each rank.
    """
    pid = os.getpid() if world <= 1 else os.getppid()
    process = f"{pid}_{alive.process_start(pid)}"
    if world <= 1:
        return process
    names = [environ[name] for name in _LAUNCH_NAMES if environ.get(name)]
    if not names or variable not in _NAMED_ONCE:
        names.append(process)
    return "".join(sign if sign.isascii() and sign.isalnum() else "_" for sign in "_".join(names))[-100:]


def selected(spec: str, rank: int, world_size: int) -> bool:
    """Return whether the resolved option `ranks` selects a rank."""
    if spec == "all":
        return True
    if spec.startswith("sample:"):
        count = int(spec[7:])
        # rank r is taken when it is the first of its share: floor(i * world / count) for i = 0 .. count - 1
        return count >= world_size or -(-rank * count // world_size) * world_size // count == rank
    return any(low <= rank <= high for low, high in rank_ranges(spec))


def machine() -> dict[str, str]:
    """Return the model of the processor and the number of processors, as far as the system reports them."""
    found = {"cores": str(os.cpu_count() or "")}
    try:
        # a machine may have hundreds of processors; the first one is in the first block
        with open("/proc/cpuinfo", "rb", buffering=0) as stream:
            lines = stream.read(4096).decode("ascii", "replace").split("\n\n")[0].splitlines()
    except OSError:
        return found
    told = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    # ARM has numbers in place of a name
    arm = " ".join(told[name] for name in ("CPU implementer", "CPU part") if name in told)
    model = told.get("model name") or (f"ARM {arm}" if arm else "")
    return found | ({"cpu": model} if model else {})


def product_version() -> str:
    """Return the version of this product."""
    return VERSION


def wall_time() -> float:
    """Return the seconds since the epoch."""
    return time.time()


def name() -> str:
    """Return the name that multiprocessing gives this process; "fork" for other children."""
    multiprocessing = sys.modules.get("multiprocessing.process")
    known = str(multiprocessing.current_process().name) if multiprocessing is not None else "MainProcess"
    return "fork" if known == "MainProcess" else known


def daemons() -> list[int]:
    """Return the living children that multiprocessing ends when this process exits, by pid; waits for none."""
    multiprocessing = sys.modules.get("multiprocessing.process")
    # `active_children` would collect the exit codes of ended children, which the job may need
    children = [*getattr(multiprocessing, "_children", ())]
    pids = [child.pid for child in children if child.daemon and child.pid]
    return sorted(filter(alive.is_child, pids))


def choose_output(path: str, base: str = "") -> tuple[str | None, str | None]:
    """Return the directory for the results, made if missing, and a line where it is not the requested one.

    A symbolic link in the last place is refused: in a directory that others may write to, it would let them choose
    where the job writes. A link higher up was made by the administrator.

    Args:
        path: the requested directory; `~` is expanded.
        base: the directory a relative path starts from, by default the current one.

    Returns:
        The absolute path, None when there is none; and the line to print, None when all is well.
    """
    try:
        chosen = os.path.abspath(os.path.join(base, os.path.expanduser(path)))
        reason = "it is a symbolic link" if os.path.islink(chosen) else _unusable(chosen)
    except FileNotFoundError:
        chosen, reason = path, "the current directory is gone"
    if not reason:
        return chosen, None
    temporary = os.path.realpath(os.environ.get("TMPDIR") or "/tmp")
    failure = _unusable(temporary)
    refused = f"cannot write to output_path {path!a} ({reason})"
    if failure:
        return None, f"{refused} nor to {temporary} ({failure}): profiling is off"
    return temporary, f"{refused}: writing to {temporary} instead"


def _unusable(path: str) -> str:
    """Make the directory if it is missing; return why it cannot be written, empty when it can."""
    try:
        os.makedirs(path, layout.DIRECTORY_MODE, exist_ok=True)
    except OSError as error:
        return error.strerror or type(error).__name__
    except ValueError as error:  # a NUL, or a surrogate that no file name can hold
        return str(error)
    return "" if os.access(path, os.W_OK | os.X_OK) else "not writable"
