"""The module in which a rank takes longer is named; a rank that is slower everywhere has none."""

import pytest
from ms_profiler.analysis.cluster import module_times

US = 1_000
#: own times of the modules of a usual rank, us per step
USUAL = {"": 300, "Net": 20, "Net.layers.0": 500, "Net.layers.1": 500, "Net.layers.2": 500, "Net.layers.2.mlp": 400}


def rank(part="computing", factor=1.0, **more):
    """Return the times of a rank; a key of `more` has `_` in place of dots."""
    times = {path: round(time * factor) for path, time in USUAL.items()}
    for name, added in more.items():
        path = name.replace("_", ".")
        times[path] = times.get(path, 0) + added
    return {part: {path: time * US for path, time in times.items()}}


def longer(own, *others, part="computing"):
    return module_times.longer(part, own, others)


@pytest.mark.parametrize("others", [1, 2, 7])
def test_the_innermost_module_with_most_of_the_time_is_named(others):
    usual = [rank(factor=1 + place / 100) for place in range(others)]
    assert longer(rank(Net_layers_1=400), *usual) == "Net.layers.1"
    assert longer(rank(Net_layers_2_mlp=400), *usual) == "Net.layers.2.mlp"


def test_one_odd_rank_among_the_others_does_not_hide_it():
    assert longer(rank(Net_layers_1=400), rank(), rank(Net_layers_1=900), rank()) == "Net.layers.1"


def test_none_is_named_where_none_has_most_of_the_time():
    # everything is slower; the rank is quicker
    assert longer(rank(factor=1.4), rank(), rank()) == ""
    assert longer(rank(factor=0.9), rank()) == ""
    assert longer({}, rank()) == "" and longer(rank(), {}) == ""


def test_a_module_that_only_the_late_rank_has_is_its_extra_work():
    assert longer(rank(Aux_layers_0=900), rank(), rank()) == "Aux.layers.0"
    # the part is new in a module that the others have
    assert longer(rank() | {"host": {"Net.layers.1": 90 * US}}, rank(), part="host") == "Net.layers.1"


def test_the_scripts_own_code_is_said_to_take_longer():
    usual = rank("launch")
    assert longer(rank("launch", **{"": 600}), usual, part="launch") == module_times.OUTSIDE
    # it is another part that takes longer
    assert longer(rank() | {"host": {"": 600 * US}}, rank(), part="host") == module_times.OUTSIDE
    assert longer(rank("launch", **{"": 300, "Net_layers_1": 400}), usual, part="launch") == "Net.layers.1"


def test_time_without_a_module_names_none_if_modules_may_be_unknown():
    assert longer(rank(**{"": 600}), rank()) == "", "kernels of a device"
    assert longer({"launch": {"": 900 * US}}, {"launch": {"": 300 * US}}, part="launch") == ""


def test_a_module_with_most_of_the_time_is_named_if_it_alone_takes_longer():
    usual = {"computing": {"": 10 * US, "Net.0": 40 * US, "Net.1": 60 * US, "Net.1.linear": 390 * US}}
    heavy = {"computing": {"": 6 * US, "Net.0": 31 * US, "Net.1": 290 * US, "Net.1.linear": 1930 * US}}
    assert longer(heavy, usual) == "Net.1"
    slower = {"computing": {path: time * 4 for path, time in usual["computing"].items()}}
    assert longer(slower, usual) == "", "everything takes longer"
    assert longer({"computing": {"": 5 * US, "Net.1": 1000 * US}}, {"computing": {"": 5 * US, "Net.1": 500 * US}}) == ""


def stage(count, first=0, optimizer=50):
    """Return the times of a stage of a pipeline: `count` layers of 500 us, and an optimizer."""
    layers = {f"Net.layers.{number}": 500 * US for number in range(first, first + count)}
    return {"computing": {"": 300 * US, "Net": 20 * US, "SGD": optimizer * US, **layers}}


def test_a_longer_stage_of_a_pipeline_is_late_because_of_its_layers_not_because_of_its_optimizer():
    # the layers are numbered in each stage anew: the longer stage has all layers of the other one, and more
    assert longer(stage(12, optimizer=200), stage(3)) == "Net.layers"
    # the layers are numbered throughout: only the network as a whole can be compared
    assert longer(stage(12, first=3, optimizer=200), stage(3)) == "Net"
    # the optimizer of the later stage is slow; its layers are not
    assert longer(stage(3, first=3, optimizer=900), stage(3)) == "SGD"
    # two copies of each stage: the late one is compared with its own copy
    late = stage(3, first=3)
    late["computing"]["Net.layers.4"] *= 2
    assert longer(late, stage(3), stage(3, first=3), stage(3)) == "Net.layers.4"
    # another network in each stage
    other = {"computing": {"": 300 * US, "Head.mlp": 5_000 * US, "SGD": 90 * US}}
    assert longer(other, stage(3)) == ""
