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
    # everything is slower; the script's own code is; it is another part that takes longer; the rank is quicker
    assert longer(rank(factor=1.4), rank(), rank()) == ""
    assert longer(rank(**{"": 600}), rank()) == ""
    assert longer(rank() | {"host": {"": 600 * US}}, rank(), part="host") == ""
    assert longer(rank(factor=0.9), rank()) == ""
    assert longer({}, rank()) == "" and longer(rank(), {}) == ""


def test_modules_that_no_other_rank_has_are_not_compared():
    assert longer(rank(Stage2_layers_0=900), rank(), rank()) == ""
    # the part is new in a module that the others have
    assert longer(rank() | {"host": {"Net.layers.1": 90 * US}}, rank(), part="host") == "Net.layers.1"
