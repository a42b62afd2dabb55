"""Recordings that ms-profiler made on a real GPU, an H100, have the kernels and modules that their programs launched.

The programs are `programs/gpu_heavy.py 60`, `programs/gpu_lost.py` and `programs/gpu_gloo.py` with the default options,
on PyTorch 2.11 and CUDA 13.0. PyTorch launched the products of matrices by CUDA's driver, and the kernels of a backward
pass on a thread of autograd.
"""

import io
import json
import tarfile
from pathlib import Path

import polars as pl
import pytest
from ms_profiler.analysis import catalogue
from ms_profiler.analysis.cluster import exchanged
from ms_profiler.analysis.driver import engine, thinning
from ms_profiler.analysis.readers import slot_table, store
from ms_profiler.analysis.report import modules
from ms_profiler.analysis.writers import modules_summary
from ms_profiler.cli import main
from ms_profiler.store.format import Category
from rich.console import Console

STEPS, LAYERS, BLOCKS = 60, 7, 5


def extracted(folder, name):
    """Extract the results in an archive, and return their directories."""
    with tarfile.open(Path(__file__).parent / "baselines" / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return sorted(map(str, folder.glob("*_ascend_ms")))


def measured(folder, name):
    """Return the measures of the only recording in an archive."""
    (result,) = extracted(folder, name)
    return engine.measured(result)


@pytest.fixture(scope="module")
def measures(tmp_path_factory):
    return measured(tmp_path_factory.mktemp("heavy"), "h100_heavy")


@pytest.fixture(scope="module")
def lost(tmp_path_factory):
    return measured(tmp_path_factory.mktemp("lost"), "h100_lost")


@pytest.fixture(scope="module")
def kernels(measures):
    return catalogue.named("kernels").of(measures)


@pytest.fixture(scope="module")
def gloo(tmp_path_factory):
    return extracted(tmp_path_factory.mktemp("gloo"), "h100_gloo")


def test_every_kernel_has_its_launch_its_operator_and_its_step(kernels):
    assert kernels["launch"].null_count() == kernels["span"].null_count() == 0
    first, *others = kernels.drop_nulls("step").group_by("step").len().sort("step")["len"]
    assert len(others) == STEPS - 1 and len(set(others)) == 1
    assert first == others[0] + 2 * 2 * LAYERS, "AdamW makes two states for each weight and each bias"


def test_each_pass_has_the_kernels_of_its_layers(kernels):
    count = dict(kernels.group_by("part").len().iter_rows())
    assert count["forward"] == STEPS * (LAYERS + BLOCKS), "a product for each layer, an activation for each block"
    backward = kernels.filter(pl.col("part") == "backward", pl.col("module") == "Net.heavy.lin")
    assert backward.height == STEPS * 3, "the gradients of input, weight and bias"
    assert set(kernels.filter(pl.col("part") == "optimizer")["module"]) == {"AdamW"}


def test_the_planted_layer_is_the_heaviest_and_its_backward_pass_takes_twice_its_forward_pass(measures):
    """A backward pass has two products of the size of the one of the forward pass."""
    tree = measures.ownership.tree
    layer = tree.row(by_predicate=pl.col("module") == "Net.heavy.lin", named=True)
    others = tree.filter(pl.col("leaf"), ~pl.col("module").is_in(["Net.heavy.lin", "AdamW"]))
    assert layer["total_ns"] > 10 * others["total_ns"].max()
    assert 1.5 < layer["backward_ns"] / layer["forward_ns"] < 2.6
    assert layer["inferred_ns"] == 0
    assert "Net.heavy.lin takes " in measures.verdict


def test_the_table_of_modules_has_the_time_of_their_kernels_and_their_time_on_the_host(measures):
    """Autograd's thread launches the backward pass of a module, and this time belongs to the module, too."""
    summary = modules_summary.summary(measures)
    assert summary["host"]["steps"] == measures.on_host.steps > 10
    rows = {row["module"]: row for row in summary["rows"]}
    layer, net = rows["Net.heavy.lin"], rows["Net"]
    on_host = measures.on_host.tree.row(by_predicate=pl.col("module") == "Net.heavy.lin", named=True)
    assert on_host["backward_ns"] > on_host["forward_ns"] / 2
    assert (
        layer["host_ms"]
        == layer["host_self_ms"]
        == pytest.approx(on_host["total_ns"] / 1e6 / measures.on_host.steps, abs=1e-5)
    )
    assert layer["host_ms"] < net["host_ms"] < summary["host"]["whole_ms"]
    assert layer["share"] > 2 * layer["host_ms"] / summary["host"]["whole_ms"]
    shown = Console(width=200, record=True, file=io.StringIO())
    shown.print(modules.table(summary))
    assert "host self" in shown.export_text()
    assert modules.title(summary, 1).endswith("; host: time of a step on the stepping thread")
    assert catalogue.named("modules").of(measures)["host"].null_count() == 0


def test_a_busy_gpu_is_not_idle_although_the_first_step_set_it_up(measures):
    moments = measures.stream.moments
    assert moments["idle"][0] > 0.9 * moments["length"][0]
    assert "of the device's time is spent computing" in measures.verdict
    assert measures.diagnosis.shares["computing"] > 0.9


def test_thinned_details_leave_the_verdict_and_the_memory_as_they_are(measures, monkeypatch):
    """Of a large recording, only some steps stay in memory, most of them slow ones; sums cover all steps."""
    monkeypatch.setattr(thinning, "TASKS", 400)
    thinned = engine.measured(measures.recording.directory)
    assert thinned.recording.device.within.height < STEPS / 2
    assert thinned.finding == measures.finding
    assert thinned.ownership.tree.equals(measures.ownership.tree)
    assert thinned.held.equals(measures.held)


def test_modules_of_steps_that_do_not_fit_into_memory_are_estimated(measures, monkeypatch):
    monkeypatch.setattr(store, "MOST_SLOTS", 2000)
    monkeypatch.setattr(slot_table, "BATCH", 64_000)
    monkeypatch.setattr(thinning.kept_steps, "__defaults__", (3000,))
    thinned = engine.measured(measures.recording.directory)
    assert len(thinned.recording.detailed) < STEPS / 4
    found, truth = (
        dict(each.ownership.tree.select("module", pl.col("total_ns") / each.ownership.whole_ns).iter_rows())
        for each in (thinned, measures)
    )
    assert found.keys() == truth.keys()
    assert found["Net.heavy.lin"] == pytest.approx(truth["Net.heavy.lin"], rel=0.05)
    assert thinned.verdict.partition(";")[0] == measures.verdict.partition(";")[0]


def test_after_an_invalid_index_the_work_of_the_device_is_unknown(lost):
    """CUPTI returned all but two of the kernels without times."""
    assert lost.verdict == (
        "The work of the device is unknown: 10,159 of 10,161 kernels that were launched have no times."
    )
    missing = [entry for entry in lost.recording.info.not_collected if entry["what"].endswith("records of the GPU")]
    assert [entry["what"] for entry in missing] == ["10260 records of the GPU"]


def test_thinned_details_leave_lost_kernels_and_gloos_exchanges_as_they_are(lost, gloo, monkeypatch):
    whole = exchanged.exchanges(engine.measured(gloo[1]))
    monkeypatch.setattr(thinning, "TASKS", 1500)
    thinned = engine.measured(gloo[1])
    assert thinned.recording.device.within.height < 30
    assert exchanged.exchanges(thinned).equals(whole)
    monkeypatch.setattr(thinning, "TASKS", 1)
    assert engine.measured(lost.recording.directory).verdict == lost.verdict


def test_the_counters_of_an_optimizer_in_the_hosts_memory_are_no_waits_for_the_device(lost):
    """AdamW reads two counters for each of its 28 parameters; the script reads no tensor."""
    spans, names = lost.recording.spans, lost.recording.names
    reads = spans.filter((names == "Tensor.item").gather(spans["name"]))
    assert reads.height == 2 * 28 * 101
    assert set(reads["category"]) == {int(Category.OTHER)}
    assert "sync" not in set(lost.pieces["phase"])
    assert lost.diagnosis.reads.is_empty()


def test_with_gloo_the_rank_whose_gpu_computes_longer_is_late(gloo, capsys):
    """Both ranks hand their gradients to gloo early; gloo's threads then wait for the GPU, on rank 1 some 22 ms."""
    engine.analyse(gloo)
    assert main(["cluster", str(Path(gloo[0]).parent), "--json", "--no-files"]) == 0
    found = json.loads(capsys.readouterr().out)
    (late,) = found["late"]
    assert (late["rank"], late["cause"], late["step"]) == (1, "computing", None)
    assert found["verdict"].startswith("Rank 1 is late by 21.8 ms a step: it computes for longer, 27.9 ms a step more")
    assert [row["role"] for row in found["ranks"]] == ["waits", "late"]


def test_a_rank_that_waits_in_an_exchange_of_gloo_communicates(gloo):
    waiting, late = map(engine.measured, gloo)
    assert waiting.diagnosis.shares["communication"] > 0.6 > 100 * waiting.diagnosis.shares["blocked"]
    assert "of the step is communication that does not overlap with computing" in waiting.verdict
    assert late.diagnosis.shares["computing"] > 0.7 > 10 * late.diagnosis.shares["communication"]
