"""The keys in the file of dynamic profiling have their documented meaning, and wrong keys are reported."""

import json
import os

import pytest
from ms_profiler.job.control.dynamic_file import DEFAULTS, DynamicFile


@pytest.fixture
def written(tmp_path):
    """Return a function that writes the file and returns its reader, which reads the file at each call of `look`."""

    def write(content, **given):
        path = tmp_path / "profiler_config.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return DynamicFile(str(path), given, 0.0)

    return write


def test_defaults_request_nothing(tmp_path):
    file = DynamicFile(str(tmp_path / "new" / "profiler_config.json"), {}, 0.0)
    assert file.look() is None
    file.create()
    file.create()
    plan = file.look()
    assert json.loads((tmp_path / "new" / "profiler_config.json").read_text()) == DEFAULTS
    assert not plan.wanted and plan.messages == []


def test_numbers_have_the_meaning_of_the_interface(written):
    file = written(
        {
            "start_step": 2,
            "stop_step": 5,
            "aic_metrics": 0,
            "profiler_level": 1,
            "activities": 1,
            "export_type": 2,
            "prof_path": "elsewhere",
        }
    )
    plan = file.look()
    assert (plan.start, plan.stop, plan.path, plan.wanted) == (2, 5, "elsewhere", True)
    assert plan.options.aic_metrics == "PipeUtilization"  # 0 has another meaning in the variable: ArithmeticUtilization
    assert (plan.options.profiler_level, plan.options.activities) == ("Level1", ("CPU",))
    assert plan.options.export_type == ("text", "db")


@pytest.mark.parametrize(
    ("content", "mode"),
    [({}, "async"), ({"analyse": False}, "off"), ({"analyse_mode": 0}, "sync"), ({"analyse_mode": 1}, "async")],
)
def test_the_loop_waits_for_an_analysis_only_on_request(written, content, mode):
    assert written({"start_step": 1, "stop_step": 1, **content}).look().options.analyse == mode


def test_options_of_the_variable_apply_where_the_file_has_none(written):
    plan = written({"start_step": 1, "stop_step": 1, "record_shapes": False}, record_shapes=True, quiet=True).look()
    assert (plan.options.record_shapes, plan.options.quiet) == (False, True)


def test_it_is_read_again_only_when_it_has_changed(written):
    file = written({"start_step": 1, "stop_step": 1})
    assert file.look() is not None
    assert file.look() is None
    os.utime(file.path, ns=(1, 1))
    assert file.look() is not None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("[1]", "must hold an object"),
        ({"start_step": "2", "stop_step": 3}, "start_step in .* is '2', but must be"),
        ({"start_step": 5, "stop_step": 3}, "start_step 5 in .* is after stop_step 3"),
    ],
)
def test_an_error_is_reported_once(written, content, message):
    file = written(content)
    with pytest.raises(ValueError, match=message):
        file.look()
    assert file.look() is None


def test_a_wrong_option_is_named(written):
    plan = written({"start_step": 1, "stop_step": 1, "profiler_level": "Level7", "recrod_shapes": True}).look()
    assert any("profiler_level" in message for message in plan.messages)
    assert any("did you mean record_shapes" in message for message in plan.messages)
