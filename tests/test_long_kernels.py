"""Kernels that another program on the same GPU interrupts are told apart from kernels whose work varies."""

import json
import random

import pytest
from ms_profiler.analysis.comparison import causes, comparing, moments, runs
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.report import remarks
from ms_profiler.store import layout
from ms_profiler.store.format import Category
from store_builder import MS, StoreBuilder

US = 1_000
STEPS = 60
USUAL = {"gemm": 300 * US, "norm": 8 * US}
TORCH = {"name": "torch", "version": "2.13.0", "mode": "eager", "device": "NVIDIA H200"}
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def job(folder, length, name="gemm", stream=7):
    """Write a run of 60 steps, whose three modules launch two kernels each, and return its path.

    Args:
        folder: the folder of the result.
        length: function of step, module and usual time: the time of a kernel in ns.
        name: name of the longer kernel.
        stream: the stream of the longer kernels; on another stream, they do not wait for other kernels.
    """
    store = StoreBuilder(folder, framework=TORCH)
    process = store.process()
    thread = process.thread()
    correlation, free = 0, 0
    for step in range(STEPS):
        start = called = (50 + 20 * step) * MS
        for module in range(3):
            thread.span(f"Net.{module}", Category.MODULE, called, called + 90 * US)
            for kernel, usual in USUAL.items():
                correlation, took = correlation + 1, length(step, module, usual)
                thread.span(f"aten::{kernel}", Category.OP, called + 5 * US, called + 30 * US)
                at = max(called, free) if stream == 7 else called
                own = {"stream": stream} if kernel == "gemm" else {}
                thread.launch(name if own else kernel, called + 10 * US, at + 15 * US, took, correlation, **own)
                free, called = at + 20 * US + took, called + 45 * US
            called += 10 * US
        thread.step(step, start, start + 20 * MS)
    process.anchor((60 + 20 * STEPS) * MS)
    return store.write()


def summary(path):
    engine.analyse([path])
    return json.loads((path / layout.SUMMARY).read_text())


def interrupted(step, module, usual):
    """Return the time of a kernel if another program's turns of 700 us hit one kernel in two of five steps."""
    hit = {0: (1, 300 * US), 2: (step % 3, 8 * US)}.get(step % 5)
    return usual + 700 * US * (hit == (module, usual))


def test_interrupted_kernels_are_counted_with_the_time_that_they_lost(tmp_path):
    found = summary(job(tmp_path, interrupted))
    long = found["device"]["long_kernels"]
    assert (long["count"], long["of"]) == (24, 6 * STEPS)
    assert long["excess_ms"] == pytest.approx(24 * 0.7)
    whole = STEPS * 3 * 0.308 + 24 * 0.7
    assert long["share"] == pytest.approx(24 * 0.7 / whole, abs=1e-3)
    (line,) = remarks.interrupted(found)
    told = "24 of 360 kernels took far longer than the same kernel in other steps, together 16.800 ms longer, 23.3 % of"
    assert line.startswith(told) and line.endswith("another program may have used the device at the same time")


def test_a_kernel_that_is_interrupted_in_most_steps_has_the_time_of_the_others_as_usual(tmp_path):
    def most(step, module, usual):
        hit = (1, 300 * US) if step % 10 < 6 else {7: (2, 8 * US), 8: (0, 8 * US)}.get(step % 10)
        return usual + 700 * US * (hit == (module, usual))

    assert summary(job(tmp_path, most))["device"]["long_kernels"]["count"] == 36 + 6 + 6


def together(step, module, usual):
    return usual * (20 if step % 3 == 0 else 1)


def of_any_length(step, module, usual):
    chance = random.Random(3 * step + module)
    return round(usual * chance.uniform(1, 90)) if usual < 300 * US else usual


def at_one_place(step, module, usual):
    return usual + 700 * US * ((module, usual) == (2, 8 * US) and step % 5 == 0)


def rarely(step, module, usual):
    return usual + 300 * US * (usual == 8 * US and step == 19 and module == 0)


@pytest.mark.parametrize("length", [together, of_any_length, at_one_place, rarely, lambda step, module, usual: usual])
def test_kernels_whose_work_varies_are_not_interrupted(tmp_path, length):
    assert summary(job(tmp_path, length))["device"]["long_kernels"] is None


@pytest.mark.parametrize(("name", "stream", "count"), [("gemm", 7, 36), (NCCL, 7, None), ("gemm", 20, None)])
def test_exchanges_and_kernels_beside_others_do_not_count(tmp_path, name, stream, count):
    def waits(step, module, usual):
        return 9 * US + 700 * US * (usual == 300 * US and (step + module) % 5 == 0)

    long = summary(job(tmp_path, waits, name, stream))["device"]["long_kernels"]
    assert (long and long["count"]) == count


def test_a_comparison_names_no_module_whose_kernels_were_interrupted(tmp_path):
    """In the second run, the other program hits another module, and hits it more often."""

    def more(step, module, usual):
        hit = (0, 300 * US) if step % 5 < 3 else (step % 3, 8 * US) if step % 5 == 3 else None
        return usual + 700 * US * (hit == (module, usual))

    before, after = (runs.digests(job(tmp_path / name, length)) for name, length in (("b", interrupted), ("a", more)))
    found = comparing.compare(before, after, ("old", "new"))
    assert {row.name for row in found.kernels} == {"gemm", "norm"}
    for row in (*found.kernels, *found.modules):
        assert row.before_ns and abs(row.difference_ns) <= 2, row
    (own,) = (each for each in found.causes.contributors if each.kind == moments.INTERRUPTED)
    assert own.change_ns == pytest.approx(0.4 * 700 * US, rel=0.3)
    assert own.kind in causes.MACHINE
    work = [each for each in found.causes.contributors if each.kind in (causes.MODULE, causes.KERNEL)]
    assert all(abs(each.change_ns) <= 2 for each in work)
    notes = [note for note in found.notes if "took far longer" in note]
    assert [note.split(",")[0] for note in notes] == [
        f"Kernels of {name} took far longer than in other steps" for name in ("old", "new")
    ]
