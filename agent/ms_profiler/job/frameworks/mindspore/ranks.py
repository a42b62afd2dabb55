"""Note the rank that MindSpore gave this process in a distributed job, and the ranks of each group.

The environment of the process may lack the rank: if msrun runs on several nodes without --node_rank, `init()` assigns
the rank later. ms-profiler writes rank and groups into every recording as soon as it knows them, so that they are not
lost when the job is killed.
"""

import sys
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks.base import Target
from ms_profiler.job.frameworks.notes import Notes, ranges
from ms_profiler.job.frameworks.strategy import Strategy
from ms_profiler.job.sources import NEVER

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

MANAGEMENT = "mindspore.communication.management"
#: keys of MindSpore's parallel context that are stored
CONTEXT = (
    *("parallel_mode", "search_mode", "auto_parallel_search_mode", "device_num", "global_rank", "pipeline_stages"),
    *("gradients_mean", "gradient_fp32_sync", "parameter_broadcast", "full_batch", "dataset_strategy"),
    *("enable_parallel_optimizer", "parallel_optimizer_config", "enable_alltoall", "all_reduce_fusion_config"),
    *("comm_fusion", "loss_repeated_mean", "strategy_ckpt_load_file", "strategy_ckpt_save_file"),
)


class Ranks(Notes):
    """Note the rank of this process and the ranks of its groups."""

    def __init__(self, host: "Host") -> None:
        super().__init__(host)
        self._groups: set[str] = set()
        self._ranked = False

    def group(self, name: str) -> None:
        """Note the ranks of a group, in the group's order; do nothing if MindSpore does not know the group."""
        if name in self._groups:
            return
        try:
            ranks = sys.modules[MANAGEMENT].get_process_group_ranks(name)
        except Exception:  # noqa: BLE001 - MindSpore raises errors of many types
            return
        self._groups.add(name)
        self.add(f"group {name} ranks {ranges(ranks)}", len(ranks))

    def rank(self) -> bool:
        """Note the rank of this process if MindSpore has assigned one; return whether it has."""
        management = sys.modules.get(MANAGEMENT)
        if not self._ranked and management is not None and management.GlobalComm.INITED:
            rank = int(management.get_rank())
            self.add(f"rank {rank} of {management.get_group_size()}", rank)
            self._ranked = True
        return self._ranked

    def layout(self) -> None:
        """Note the ranks of every group, the parallel mode, and the number of pipeline stages."""
        if not self.rank():
            return
        helper = sys.modules.get("mindspore.communication._comm_helper")
        for name in list(helper._get_group_map()) if helper is not None else ():
            self.group(name)
        context = sys.modules["mindspore.context"].get_auto_parallel_context
        stages = int(context("pipeline_stages"))
        self.add(f"parallel mode {context('parallel_mode')} in {stages} stages", stages)

    def strategy(self) -> dict[str, Any]:
        """Return MindSpore's parallel context as a JSON object; empty if the process has no rank."""
        context = sys.modules.get("mindspore.context")
        if context is None or not self.rank():
            return {}
        known = {}
        for name in CONTEXT:
            try:
                value = context.get_auto_parallel_context(name)
            except Exception:  # noqa: BLE001 - versions differ in their keys, and raise errors of many types
                continue
            known[name] = value if isinstance(value, (bool, int, float, str, list, dict)) else str(value)
        return {"context": known}


_notes: Ranks | None = None


def notes(host: "Host") -> Ranks:
    """Return the object that notes ranks and groups; all hooks of this process share it."""
    global _notes
    if _notes is None or _notes.host is not host:
        _notes = Ranks(host)
    return _notes


def targets(host: "Host") -> list[Target]:
    """Check for the rank between steps until the process has one, and at the end; return no functions to wrap."""
    found = notes(host)

    def stepped(count: int) -> tuple[int, bool]:
        # the intervals between the checks grow, because a job may never call `init`
        return NEVER if found.rank() else 2 * count + 1, False

    host.at_step(stepped)
    host.at_end(found.layout)
    Strategy(host, found.strategy)
    return []
