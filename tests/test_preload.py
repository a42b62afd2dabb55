"""`ms-profiler run` preloads msPTI's library if that is needed and harmless, and otherwise says why it does not."""

import json
import os
import sys

import pytest
from conftest import environment
from fakes_built import ASCEND, ascend_fakes, build  # noqa: F401
from ms_profiler import options
from ms_profiler.job.devices import preload
from test_run import ms_profiler

SHOW = "import json, os; print(json.dumps(os.environ.get('LD_PRELOAD', '')))"


def started(folder, *words, **extra):
    """Return LD_PRELOAD of a command that `ms-profiler run` starts, and the printed message."""
    variables = {"LD_LIBRARY_PATH": str(folder), "MS_PROFILER_LIBMSPTI": str(folder / "libmspti.so"), **extra}
    done = ms_profiler("run", "--option", "quiet=true", *words, "--", sys.executable, "-S", "-c", SHOW, **variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr.removeprefix("ms-profiler: ").strip()


MEMORY = ("--option", "profile_memory=true")


def test_memory_needs_it(ascend_fakes):  # noqa: F811
    assert started(ascend_fakes, *MEMORY) == (str(ascend_fakes / "libmspti.so"), "")


def test_preloaded_libraries_stay(ascend_fakes):  # noqa: F811
    both = started(ascend_fakes, *MEMORY, LD_PRELOAD=str(ascend_fakes / "libprofapi.so"))
    assert both == (f"{ascend_fakes / 'libmspti.so'}:{ascend_fakes / 'libprofapi.so'}", "")
    once = started(ascend_fakes, *MEMORY, LD_PRELOAD=str(ascend_fakes / "libmspti.so"))
    assert once == (str(ascend_fakes / "libmspti.so"), "")


@pytest.mark.parametrize("words", [(), (*MEMORY, "--option", 'activities=["CPU"]')])
def test_no_library_is_preloaded_without_need(ascend_fakes, words):  # noqa: F811
    assert started(ascend_fakes, *words) == ("", "")


def test_a_library_that_ends_its_process_is_not_preloaded(tmp_path):
    build(tmp_path, {name: made for name, made in ASCEND.items() if name != "libprofapi.so"})
    library = tmp_path / "libmspti.so"
    assert started(tmp_path, *MEMORY) == (
        "",
        f"{preload.WHAT} are not recorded: a process that preloads {library} ends with SIGABRT; "
        "`ms-profiler doctor` names the missing parts",
    )


def test_a_file_that_is_no_library_is_not_preloaded(ascend_fakes, tmp_path):  # noqa: F811
    library = tmp_path / "libmspti.so"
    library.write_text("no library")
    present, line = started(ascend_fakes, *MEMORY, MS_PROFILER_LIBMSPTI=str(library))
    assert present == ""
    assert line.startswith(f"{preload.WHAT} are not recorded: ERROR: ld.so: object '{library}'")


def test_a_conflicting_library_is_reported(ascend_fakes):  # noqa: F811
    before = {"LD_PRELOAD": "libascend_kernel_hook.so"}
    why = preload.add(before, options.Options(profile_memory=True), [str(ascend_fakes / "libmspti.so")])
    assert "libascend_kernel_hook.so is in LD_PRELOAD" in why
    assert before == {"LD_PRELOAD": "libascend_kernel_hook.so"}


@pytest.mark.parametrize(("given", "said"), [((), ""), (("activities",), "there is no libmspti.so")])
def test_a_missing_library_is_reported_when_the_npu_is_requested(tmp_path, given, said):
    chosen = options.Options(profile_memory=True, given=frozenset(given))
    why = preload.add(variables := {}, chosen, [str(tmp_path / "libmspti.so"), "libmspti.so"])
    assert said in why and bool(said) == bool(why)
    assert variables == {}


def test_it_is_tried_once_and_in_another_process(ascend_fakes, tmp_path, monkeypatch):  # noqa: F811
    """ms-profiler tries the library once, in a process without the job's options, which is thus not profiled."""
    tried = []

    def run(command, env, **_):
        tried.append((command[0], env))
        raise preload.subprocess.TimeoutExpired(command, 1)

    monkeypatch.setattr(preload.subprocess, "run", run)
    variables = environment({"start": True})
    why = preload.add(variables, options.Options(profile_memory=True), [str(ascend_fakes / "libmspti.so")])
    assert "does not end" in why
    ((program, seen),) = tried
    assert (program, os.path.basename(seen["LD_PRELOAD"])) == (sys.executable, "libmspti.so")
    assert "MS_PROFILER_OPTIONS" not in seen
