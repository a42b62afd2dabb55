"""Under MindSpore's names, no mistake in the use of the profiler ends the job; in the package, each has one error."""

import re

import ms_profiler
import pytest
from conftest import PROGRAMS
from ms_profiler.errors import UsageError

#: call -> (what the script sees, what stderr says). The script sees what it sees with MindSpore's own profiler.
SEEN = {
    "a handler that raises": (
        "-> 2",
        "ms-profiler: on_trace_ready of the script's profiler failed: ValueError: my handler has a bug "
        "(own_mistakes.py:35). The job goes on. Correct the script.",
    ),
    "a handler that exits": ("raised SystemExit", ""),
    "a timeout": ("raised TimeoutOfJobError", ""),
    "schedule=5": ("-> True", "schedule is 5, but must be a function; leaving it out"),
    "schedule returns 7": (
        "-> []",
        "The schedule returned 7. Let it return a member of ProfilerAction. Such steps are not recorded.",
    ),
    "schedule raises in step()": ("-> []", "step() of the script's profiler failed: ZeroDivisionError"),
    "schedule raises at once": ("raised ZeroDivisionError", ""),
    "on_trace_ready=5": ("-> True", "on_trace_ready is 5, but must be a function; leaving it out"),
    "offline_analyse(5)": ("-> None", "ms-profiler: profiler_path is 5. Pass the path of a result"),
    "analyse(5)": ("-> None", "ms-profiler: profiler_path is 5. Pass the path of a result"),
    "analyse(step_list=5)": ("-> None", "ms-profiler: step_list is 5. It must be a list of numbers of steps."),
    "analyse(max_process_number='two')": ("-> None", "max_process_number is 'two'. It must be 1 or more. Using"),
    "op_analyse() without a result": ("-> None", "ms-profiler: There is nothing to analyse yet."),
    "op_analyse(5)": ("-> None", "op_analyse() of the script's profiler failed: TypeError: op_name is 5, but"),
    "tensorboard_trace_handler(name=5)": ("-> None", "unexpected keyword argument 'name'"),
    "step(1, 2)": ("-> None", "step() of the script's profiler failed: TypeError"),
    "add_metadata(1)": ("-> None", "add_metadata() of the script's profiler failed: TypeError"),
    "experimental_config=5": ("-> True", "experimental_config is 5, but must be an _ExperimentalConfig"),
    "start_profile='no'": ("-> None", 'start_profile is "no", but must be true or false; using true'),
    "odd values": ("-> True", 'with_stack is "<builtins.object>", but must be true, false or "sample"; using false'),
    "no step()": ("-> None", "the profiler has a schedule, but step() was never called"),
    "cfg_path=5": ("raised UsageError", ""),
    "step_end(5)": ("-> None", "step_end() of the script's profiler failed: AttributeError"),
    "a step that is not there": ("-> None", "_ascend_ms has no step 77. It has step 0."),
}


@pytest.mark.parametrize("warnings", ["always", pytest.param("error", marks=pytest.mark.slow)])
def test_no_mistake_ends_a_job_that_mindspores_profiler_does_not_end(job, warnings):
    run = job(PROGRAMS / "own_mistakes.py", warnings)
    assert run.code == 0, run.err
    printed = dict(re.split(r" (?=-> |raised )", line, maxsplit=1) for line in run.out.splitlines())
    said = dict(part.split("\n", 1) for part in run.err.split("-- ")[1:])
    for what, (seen, line) in SEEN.items():
        assert (printed[what], line in said[what]) == (seen, True), said[what]
    assert said["a handler that raises"].count("on_trace_ready") == 1  # not once for each cycle
    assert "failed with exit code" not in run.err
    where = said["tensorboard_trace_handler(5)"]
    assert "dir_name is 5, but must be a path; using the default" in where
    (shown,) = re.findall(r".*/again/.*", said["a step that is there"])
    assert re.fullmatch(r"ms-profiler: .+\. More: ms-profiler summary \S+/again/\S+_ascend_ms", shown)
    if warnings == "always":
        assert "own_mistakes.py:" in where  # the warning names the line of the script


QUIET = """
import ms_profiler, torch
net = torch.nn.Linear(2, 2)
with ms_profiler.profile(on_trace_ready=ms_profiler.tensorboard_trace_handler("own")):
    for _ in range(3):
        net(torch.ones(1, 2)).sum().backward()
try:
    ms_profiler.profile(schedule=lambda _: 7)
except ms_profiler.errors.UsageError as reason:
    print(reason)
"""


def test_the_variable_makes_the_scripts_own_profiler_quiet(job, tmp_path):
    run = job(QUIET, options={"analyse": "off", "quiet": True})
    said = "The schedule returned 7. Let it return a member of ProfilerAction.\n"
    assert (run.code, run.out, run.err) == (0, said, "")
    assert list(tmp_path.glob("own/*/summary.json"))


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda: ms_profiler.analyse(5), "profiler_path is 5"),
        (lambda: ms_profiler.analyse("a\0b"), "profiler_path is 'a"),
        (lambda: ms_profiler.analyse("x", step_list=5), "step_list is 5"),
        (lambda: ms_profiler.Profiler.offline_analyse(None), "profiler_path is None"),
        (lambda: ms_profiler.DynamicProfilerMonitor(5), "cfg_path is 5"),
    ],
)
def test_in_the_package_a_mistake_has_one_error(call, what):
    with pytest.raises(UsageError, match=re.escape(what)):
        call()
