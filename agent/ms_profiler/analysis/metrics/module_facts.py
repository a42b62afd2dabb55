"""Join the tree of modules with the parameters, the FLOPs and the time on the host of each module."""

from dataclasses import replace

import polars as pl

from ms_profiler.analysis.metrics import memory, module_tree, module_work, parameters
from ms_profiler.analysis.metrics.ownership import Ownership
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.readers import networks
from ms_profiler.analysis.streams.kernel_stream import Stream


def facts(
    found: Ownership | None,
    on_host: Ownership | None,
    recording: tables.Recording,
    used: Steps,
    steady: pl.DataFrame,
    stream: Stream,
) -> tuple[pl.DataFrame, dict[str, str]]:
    """Return the tree of modules with their further facts, and the reasons for unknown values.

    The columns are those of `module_tree.ROWS`, `module_tree.ON_HOST`, `parameters.SIZES` and `module_work.WORK`.

    Args:
        found: the modules of the run with their times; None if no module is known.
        on_host: the modules with their times on the stepping thread, if the times of `found` are those of kernels.
        recording: the run.
        used: the steps in use.
        steady: the steps that shares refer to.
        stream: the kernels.
    """
    if found is None:
        columns = {**module_tree.ROWS, **module_tree.ON_HOST, **parameters.SIZES, **module_work.WORK}
        return pl.DataFrame(schema=columns), {}
    times = None if on_host is None else on_host.tree.with_columns(pl.col("total_ns", "self_ns") // on_host.steps)
    found = replace(found, tree=module_tree.with_host(found.tree, times))
    tree = found.tree
    known = [] if recording.foreign else networks.of_run(recording.directory, used.process, recording.counts)
    sizes, unsized = parameters.of(tree["module"].to_list(), known)
    counted, uncounted = module_work.work(found, recording, used, steady, stream)
    whole = pl.concat([tree, sizes.drop("module"), counted.drop("module")], how="horizontal")
    unknown_memory = {} if not recording.blocks.is_empty() else {"memory": memory.NO_MEMORY}
    return whole, {"parameters": unsized, "flops": uncounted, **unknown_memory}
