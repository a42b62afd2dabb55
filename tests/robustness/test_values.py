"""With any value of the variable, a job runs as without ms-profiler, and a bad value costs one line."""

import pytest
from conftest import launcher
from unharmed import training, unharmed

BAD = ["not json", "[1]", '"x"', "1e999", "null", "[" * 5000, '{"start": tru', "{'start': True}", "\\udcff"]
#: value that is a JSON object, or empty -> number of lines, and whether there is a result
ODD = {
    '{"start": true, "zzz": 1}': (1, True),
    '{"start": true, "max_disk": [1]}': (1, True),
    '{"start": true, "overhead_budget": 1e999}': (1, True),
    '{"start": true, "output_path": "\\u0000"}': (1, True),
    '{"start": true, "output_path": {"a": 1}}': (1, True),
    '{"start": true, "with_stack": "' + "x" * 100_000 + '"}': (1, True),
    '{"start": true, "ranks": -1, "analyse": 7, "schedule": "x"}': (3, True),
    '{"start": false, "zzz": 1}': (0, False),
    "{}": (0, False),
    "": (0, False),
}
PROGRAMS = {
    "torch": training(),
    "mindspore": "import mindspore as ms; print(ms.ops.relu(ms.Tensor([-1.0, 2.0])))",
}


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """Return the bare run of each program, by the program's name."""
    folder = tmp_path_factory.mktemp("bare")
    return {name: launcher(folder)(program, profile=False) for name, program in PROGRAMS.items()}


def with_value(tmp_path, bare, name, value):
    """Run a program with a value of the variable, compare it with the bare run, and return the further lines."""
    value = value.encode().decode("unicode_escape") if value == "\\udcff" else value
    run = launcher(tmp_path)(PROGRAMS[name], options=value, env={"TMPDIR": str(tmp_path)})
    unharmed(run, bare[name])
    return [line for line in run.lines if not line.startswith(("recording to", "recorded to"))]


@pytest.mark.parametrize("value", BAD)
def test_a_bad_value_costs_one_line(tmp_path, bare, value):
    lines = with_value(tmp_path, bare, "torch", value)
    assert len(lines) == 1 and "profiling is off" in lines[0], lines
    assert not list(tmp_path.glob("*_ascend_ms")) and not (tmp_path / "data").exists()


@pytest.mark.parametrize("value", ["[1]", "not json", '"x"'])
def test_mindspore_that_fails_by_the_value_itself_is_spared(tmp_path, bare, value):
    lines = with_value(tmp_path, bare, "mindspore", value)
    assert len(lines) == 1 and "profiling is off" in lines[0], lines


@pytest.mark.parametrize("value", ODD, ids=[str(number) for number in range(len(ODD))])
def test_an_odd_option_costs_a_line_and_profiling_continues(tmp_path, bare, value):
    most, recorded = ODD[value]
    lines = with_value(tmp_path, bare, "torch", value)
    messages = [line for line in lines if "analys" not in line]
    assert len(messages) <= most + 1 and (len(messages) >= most), lines
    assert bool(list(tmp_path.glob("**/*_ascend_ms"))) == recorded
