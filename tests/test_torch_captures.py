"""Code that inspects PyTorch's functions and objects sees no change, and compilations give the same results."""

import pytest
from conftest import PROGRAMS
from events import events, named, of
from ms_profiler.store.format import Category, Kind

PROGRAM = PROGRAMS / "torch_captures.py"


@pytest.mark.slow
def test_captures_are_the_same_and_compilations_are_recorded(job, tmp_path):
    directories = [tmp_path / "bare", tmp_path / "profiled"]
    for directory in directories:
        directory.mkdir()
    bare = job(PROGRAM, str(directories[0]), profile=False)
    options = {"analyse": "off", "quiet": True}
    run = job(PROGRAM, str(directories[1]), options=options, env={"MS_PROFILER_RAISE": "1"})
    assert bare.code == 0, bare.err
    assert (run.code, run.out) == (0, bare.out), run.err
    assert len(run.err.splitlines()) == len(bare.err.splitlines()), run.err  # each line begins with a time

    found = events(run.result)
    compiled = of([event for event in found if event.kind == Kind.SPAN], Category.COMPILE)
    # Four networks have this code. Each is compiled twice: its first steps have one size, and its last step has
    # another.
    assert compiled["compile Net.forward"] == 4 * 2
    assert compiled["compile function.<locals>.forward"] == 2
    graphs = of(found, Category.GRAPH)
    assert graphs["graph Net.forward"] == 4 * 3
    assert graphs["graph function.<locals>.forward"] == 3
    # six trainings of three steps, and two further calls; a backward pass that is traced does not count
    assert of(found, Category.BACKWARD) == {"backward": 6 * 3 + 1 + 1}
    causes = {event.name for event in found if event.kind == Kind.INSTANT and event.category == Category.COMPILE}
    assert "recompile Net.forward: tensor 'x' size mismatch at index 0. expected 4, actual 6" in causes
    assert "recompile function.<locals>.forward: scale has another value" in causes
    # Only the outermost call of compiled code reaches our hook. Where the graph breaks, the rest is compiled, too.
    assert named(found, "OptimizedModule") and not any(event.raised for event in found)
    # two files, and six tensors in each of two pickles; only a zip file has calls to open and close it
    files = {"torch.save, opening": 1, "torch.save, closing": 1}
    assert of(found, Category.CHECKPOINT) == {"torch.save": 2 + 2 * 6, "torch.load": 2 + 2 * 6, **files}
