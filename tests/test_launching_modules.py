"""The time of modules on the host is known beside that of their kernels, and tells which module launches most."""

from types import SimpleNamespace

import polars as pl
from ms_profiler.analysis.metrics import module_tree, ownership
from ms_profiler.analysis.metrics.owners import PIECES
from ms_profiler.analysis.metrics.ownership import Ownership
from ms_profiler.analysis.metrics.scopes import Part


def test_the_tree_by_kernels_has_the_time_on_the_host_and_modules_without_kernels():
    calls = pl.DataFrame(schema={"module": pl.String, "calls": pl.UInt64})

    def tree(**own):
        rows = [(owner, 1, 0, ns) for owner, ns in own.items()]
        times = pl.DataFrame(rows, schema=("owner", "part", "bound", "self_ns"), orient="row")
        return module_tree.rows(times, calls, 100)

    kernels = tree(**{"net.b": 60, "net.a": 40, "SGD": 5})
    joined = module_tree.with_host(kernels, tree(**{"net.a": 5, "net.b.c": 20, "net.b": 10, "zero": 2}))
    chosen = joined.select("module", "depth", "leaf", "total_ns", "host_ns", "host_self_ns")
    assert chosen.rows() == [
        ("net", 0, False, 100, 35, 0),
        ("net.b", 1, False, 60, 30, 10),
        ("net.b.c", 2, True, 0, 20, 20),
        ("net.a", 1, True, 40, 5, 5),
        ("SGD", 0, True, 5, 0, 0),
        ("zero", 0, True, 0, 2, 2),
    ]
    alone = module_tree.with_host(kernels, None)
    assert alone.select(kernels.columns).equals(kernels) and alone["host_ns"].null_count() == kernels.height


def launching(shares, bound=True):
    """Return the text about launching in a step of 1 ms, in which modules launch for these shares of it."""
    at, rows = 0, []
    for owner, share in shares.items():
        rows.append((0, owner, int(Part.OPTIMIZER if owner == "SGD" else Part.FORWARD), 3, at, at + int(share * 1e6)))
        at = rows[-1][-1]
    pieces = pl.DataFrame(rows, schema=PIECES, orient="row")
    cut = [(0, "launch", 0, at), (0, "computing", at, 1_000_000)]
    moments = pl.DataFrame(cut, schema=("step", "part", "start_ns", "end_ns"), orient="row")
    found = Ownership("host", 1, 1_000_000, pieces, pieces, pieces, 1)
    # the spans of a second step are not in memory, so its owners are unknown
    moments = pl.concat([moments, moments.with_columns(pl.lit(1, moments.schema["step"]).alias("step"))])
    return ownership.launching(found, SimpleNamespace(launching=bound, pieces=moments))


def test_the_module_in_which_launching_takes_most_is_named_only_if_it_stands_out():
    twins = {f"net.{block}.lin": 0.1 for block in range(4)}
    assert launching(twins | {"SGD": 0.4}) == ""
    assert launching(twins | {"net.2.lin": 0.15}) == "", "not twice as long as its twins"
    text = "launching in net.2.lin takes 40 % of the step, in each other net.*.lin at most 10 %"
    assert launching(twins | {"net.2.lin": 0.4}) == text
    assert launching(twins | {"net.2.lin": 0.4}, bound=False) == ""
    assert launching({"net.loop": 0.5, "net.head": 0.2}) == "71 % of the launching is in net.loop"
    assert launching({"net": 0.5, "net.head": 0.2}) == "71 % of the launching is in net itself"
    assert launching({"net.loop": 0.2, "net.head": 0.2, "SGD": 0.2}) == ""
