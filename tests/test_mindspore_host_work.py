"""Other work of the host is recorded: files, waits, batches and markers."""

import pytest
from conftest import PROGRAMS
from events import events, inside, named, of, steps
from ms_profiler.store.format import Category, Kind, StepSource


def test_files_waits_batches_and_markers(job, tmp_path):
    program = PROGRAMS / "host_work.py"
    bare = job(program, str(tmp_path / "bare"), profile=False)
    run = job(program, str(tmp_path / "profiled"), options={"analyse": "off"}, env={"MS_PROFILER_RAISE": "1"})
    assert (bare.code, run.code) == (0, 0), run.err
    assert run.out == bare.out
    everything = events(run.result)
    found = [event for event in everything if event.process == "job"]

    # each file is recorded once, in the thread that writes or reads it
    assert of(found, Category.CHECKPOINT) == {
        "save_checkpoint": 3,
        "write checkpoint": 3,
        "load_checkpoint": 2,
        "load_checkpoint_async": 1,
        "wait for load_checkpoint_async": 1,
        "load_param_into_net": 1,
        "export": 1,
        "load MindIR": 1,
    }
    main = named(found, "save_checkpoint")[0].thread
    assert sorted(event.thread == main for event in named(found, "write checkpoint")) == [False, True, True]
    assert sorted(event.thread == main for event in named(found, "load_checkpoint")) == [False, True]

    # each read of a tensor is recorded once, even if one read calls another one
    (marker,) = named(found, "waits")
    waits = [event for event in found if event.category == Category.SYNC and inside(event, [marker])]
    assert of(waits, Category.SYNC) == {
        "Tensor.__float__": 1,
        "Tensor.__int__": 1,
        "Tensor.__bool__": 1,
        "Tensor.item": 1,
        "Tensor.tolist": 1,
        "Tensor.__repr__": 1,
        "Tensor.__index__": 1,
        "Tensor.asnumpy": 4,  # called directly, by str, by numpy.array and by Tensor.numpy
    }
    assert not any(inside(event, waits) for event in waits)

    # both kinds of loaders are recorded; the workers of the newer one record their fetches
    data = of(found, Category.DATA)
    assert data["wait for NumpySlicesDataset"] == 2 * (4 + 1) and data["wait for Squares"] == 2 * (3 + 1)
    assert (data["create iterator"], data["fetch batch"]) == (2, 3)
    assert all(inside(event, named(found, "wait for Squares")) for event in named(found, "fetch batch"))
    fetched = [event.process for event in named(everything, "fetch batch") if event.process != "job"]
    assert sorted(set(fetched)) == ["DataLoaderWorker0", "DataLoaderWorker1"] and len(fetched) == 3
    assert {StepSource(step.category) for step in steps(found)} == {StepSource.DATASET}
    assert len(steps(found)) == 4 + 4 + 3 + 3

    # the script's markers are recorded, without those that MindSpore sets around its own work
    markers = [(event.name, event.kind) for event in found if event.category == Category.MARKER]
    assert sorted(markers) == [
        ("first", Kind.SPAN),
        ("mine: other point", Kind.INSTANT),
        ("mine: second", Kind.SPAN),
        ("point", Kind.INSTANT),
        ("waits", Kind.SPAN),
    ]
    first, second = named(found, "first")[0], named(found, "mine: second")[0]
    assert first.start < second.start < first.end < second.end  # ranges may overlap


def test_markers_keep_to_the_schedule(job):
    program = (
        "import mindspore as ms\nfrom mindspore import nn\nfrom mindspore.profiler import mstx\n"
        "net, x = nn.Dense(2, 2), ms.Tensor([[1., 2.]])\n"
        "for index in range(6):\n"
        "    net(x)\n"
        "    marker = mstx.range_start(f'range {index}')\n    mstx.mark(f'mark {index}')\n    mstx.range_end(marker)\n"
    )
    run = job(program, options={"analyse": "off", "schedule": {"wait": 2, "active": 2}}, env={"MS_PROFILER_RAISE": "1"})
    found = events(run.result)
    assert len(steps(found)) == 6
    # the script sets markers after the call, which is at the begin of the next step
    assert of(found, Category.MARKER).keys() >= {"range 1", "range 2", "mark 1", "mark 2"}
    assert of(found, Category.MARKER).keys().isdisjoint({"range 3", "mark 3"})


@pytest.mark.slow
def test_checkpoint_written_by_a_child_process(job, tmp_path):
    program = (
        "import multiprocessing, mindspore as ms\nfrom mindspore import nn\n"
        f"ms.save_checkpoint(nn.Dense(2, 2), {str(tmp_path / 'net.ckpt')!r}, async_save='process')\n"
        "for child in multiprocessing.active_children():\n    child.join()\n"
    )
    run = job(program, options={"analyse": "off"}, env={"MS_PROFILER_RAISE": "1"})
    assert run.code == 0, run.err
    found = events(run.result)
    assert [event.process for event in named(found, "save_checkpoint")] == ["job"]
    # MindSpore starts the child process again if it misses the child's first sign of life
    written = [event.process for event in named(found, "write checkpoint")]
    assert written and set(written) == {"asyn_save_ckpt"}
