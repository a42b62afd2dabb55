"""Read the sizes of the buckets in which DistributedDataParallel exchanges gradients, from PyTorch's own logger.

DistributedDataParallel joins gradients into buckets in C++. It exchanges each bucket with one all-reduce, in the order
of the buckets. After the first backward pass with an exchange, DistributedDataParallel makes the buckets once more, in
the order in which gradients became ready. Its logger knows the bytes of each bucket:
https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/logger.cpp. When ms-profiler reads the logger's
data, PyTorch copies a small table and changes nothing.
"""

import itertools
import weakref
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import trees
from ms_profiler.job.frameworks.notes import Notes
from ms_profiler.job.frameworks.torch import ranks
from ms_profiler.job.sources import NEVER
from ms_profiler.store.names import BUCKETS

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

#: After each of the first EARLY steps, ms-profiler checks the buckets. Then it checks every LOOK steps, because the job
#: may make another DistributedDataParallel.
EARLY, LOOK = 8, 16
#: after this number of iterations, DistributedDataParallel no longer changes its buckets
SETTLED = 3
#: Largest length of a list of bucket sizes as text, in characters. A longer list is not noted.
MOST = 2000
#: DistributedDataParallel may exchange with an all-reduce which parameters were used. Each parameter takes this number
#: of bytes.
ELEMENT = 4


class Replicas:
    """Note the buckets of each DistributedDataParallel, from its first call until they no longer change.

    Args:
        host: the session, which knows the process groups.
        notes: receives a note about the buckets.
    """

    def __init__(self, host: "Host", notes: Notes) -> None:
        self.host = host
        self._notes = notes
        self._open: list[tuple[str, weakref.ref[Any]]] = []
        self._all: list[tuple[str, weakref.ref[Any]]] = []

    def seen(self, title: str, module: Any) -> None:
        """Watch the buckets of a DistributedDataParallel from now on; it is called for the first time."""
        entry = title, weakref.ref(module)
        self._open.append(entry)
        self._all.append(entry)

    def stepped(self, count: int) -> tuple[int, bool]:
        """Note the buckets after a step; return the step of the next check."""
        self._open = [entry for entry in self._open if not self._settled(*entry)]
        if not self._all and count > EARLY * LOOK:
            return NEVER, False
        return count + (1 if self._open or count < EARLY else LOOK), False

    def end(self) -> None:
        """Note what has changed since the last check, for example that the script registered a communication hook."""
        for entry in self._all:
            self._settled(*entry)

    def _settled(self, title: str, held: "weakref.ref[Any]") -> bool:
        """Note the buckets of a DistributedDataParallel; return whether the buckets are final."""
        module = held()
        data = self._read(module)
        if data is None:
            return True
        numbers, texts = data
        rebuilt = bool(numbers.get("has_rebuilt_buckets"))
        sizes = _listed(str(texts.get("rebuilt_bucket_sizes" if rebuilt else "bucket_sizes", "")))
        iteration = int(numbers.get("iteration", 0))
        static = bool(numbers.get("static_graph"))
        used = (
            0 if static or not numbers.get("find_unused_parameters") else int(numbers.get("num_parameter_tensors", 0))
        )
        group = ranks.groups(self.host).name(trees.attributes(module).get("process_group"))
        hook = str(texts.get("comm_hook", "")).replace(";", " ")
        if group and sizes:
            parts = (min(iteration, SETTLED), int(rebuilt), sizes, used * ELEMENT, hook, group, title)
            self._notes.add(f"{BUCKETS}{';'.join(map(str, parts))}", iteration)
        return rebuilt or iteration >= SETTLED

    def _read(self, module: Any) -> tuple[dict[str, int], dict[str, str]] | None:
        """Return the data of the module's logger, the numbers and the texts; None if the module has no logger."""
        logger = trees.attributes(module).get("logger")
        read = getattr(logger, "_get_ddp_logging_data", None)
        if read is None:
            return None
        data = read()
        return dict(data.ints_map), dict(data.strs_map)


def _listed(sizes: str) -> str:
    """Shorten a list of sizes: "4,4,4,8" becomes "4*3,8". Return an empty text if the result is too long."""
    parts = [part.strip() for part in sizes.split(",")]
    if not all(part.isdecimal() for part in parts):
        return ""
    runs = [(size, len(list(same))) for size, same in itertools.groupby(parts)]
    text = ",".join(f"{size}*{count}" if count > 1 else size for size, count in runs)
    return text if len(text) <= MOST else ""
