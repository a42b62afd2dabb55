"""ms-profiler loads msPTI's library only if all libraries that it needs are there; otherwise it would end the job."""

import os

import pytest
from fakes_built import ASCEND, ascend_fakes, build  # noqa: F401
from ms_profiler.job.recorder.tracing import Outcome
from traced import run_ascend  # noqa: F401


@pytest.fixture
def run(run_ascend):  # noqa: F811
    """Return a function that runs a program with the fake libraries of CANN."""
    return run_ascend


def of(calls, name):
    return [argument for call, argument in calls if call == name]


COMPANIONS = ["libascendalog.so", "libprofapi.so", "libascend_hal.so"]


@pytest.mark.parametrize("missing", COMPANIONS[:2])
def test_without_a_companion_the_library_is_never_loaded(run, tmp_path, missing):
    """Without a companion, msPTI's library would end the process. Without the driver's library, no job uses an NPU."""
    (tmp_path / "some").mkdir()
    build(tmp_path / "some", {name: made for name, made in ASCEND.items() if name != missing})
    found, calls, _ = run(
        """
driver()
outcome = tracing.attach("libmspti.so")
print(json.dumps([*outcome, "libmspti" in open("/proc/self/maps").read()]))
""",
        LD_LIBRARY_PATH=str(tmp_path / "some"),
    )
    assert found[0] == Outcome.FAILED
    begin = (
        f"{missing} is missing, and msPTI would end the job without it; "
        f"source CANN's set_env.sh ({missing}: cannot open"
    )
    assert found[1].startswith(begin)
    assert (found[2], calls) == (False, [])


@pytest.mark.parametrize(
    ("odd", "flags"), [*((name, []) for name in COMPANIONS[:2]), (COMPANIONS[2], ["-DHAL", "-DOLD"])]
)
def test_a_companion_that_lacks_a_function_is_as_good_as_missing(run, tmp_path, odd, flags):
    """The driver's library lacks a function that msPTI needs only when it is used."""
    (tmp_path / "some").mkdir()
    build(tmp_path / "some", ASCEND | {odd: ("ascend.c", *flags)})
    found, _, _ = run(
        'driver(); print(json.dumps(tracing.attach("libmspti.so")))', LD_LIBRARY_PATH=str(tmp_path / "some")
    )
    assert found[0] == Outcome.FAILED
    assert found[1].startswith(f"{odd} has no ")
    assert found[1].endswith("use a driver that fits this CANN")


@pytest.mark.parametrize(
    ("flags", "bare", "outcome"),
    [([], False, Outcome.FAILED), (["-DOLD"], False, Outcome.DONE), (["-DOLD"], True, Outcome.FAILED)],
)
def test_an_older_driver_does_for_a_library_that_does_not_need_more(run, tmp_path, flags, bare, outcome):
    """The needed functions are read from the library's file.

    If only the library's name is known, the driver has to have all functions.
    """
    (tmp_path / "some").mkdir()
    older = {"libascend_hal.so": ("ascend.c", "-DHAL", "-DOLD"), "libmspti.so": (*ASCEND["libmspti.so"], *flags)}
    build(tmp_path / "some", ASCEND | older)
    library = "libmspti.so" if bare else str(tmp_path / "some" / "libmspti.so")
    found, calls, _ = run(
        f"""
driver()
outcome, why = tracing.attach({library!r})
print(json.dumps([outcome, why, tracing.detach()]))
""",
        LD_LIBRARY_PATH=str(tmp_path / "some"),
    )
    assert found[0] == outcome
    assert ("halProfDataFlush" in found[1]) is (outcome is Outcome.FAILED)
    assert of(calls, "Subscribe") == ([0] if outcome is Outcome.DONE else [])


def test_the_fake_ends_a_process_without_companions(run, tmp_path):
    """The fake library ends the process like the real one, so the tests above would fail if ms-profiler loaded it."""
    (tmp_path / "some").mkdir()
    build(tmp_path / "some", {"libmspti.so": ASCEND["libmspti.so"]})
    found, _, _ = run(
        """
pid = os.fork()
if pid == 0:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    ctypes.CDLL("libmspti.so")
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
""",
        LD_LIBRARY_PATH=str(tmp_path / "some"),
    )
    assert found == -6


def test_companions_below_canns_folder_are_found_as_it_finds_them(run, ascend_fakes, tmp_path):  # noqa: F811
    (tmp_path / "cann" / "lib64").mkdir(parents=True)
    (tmp_path / "some").mkdir()
    for library in ascend_fakes.iterdir():
        aside = library.name in COMPANIONS[:2]
        os.symlink(library, (tmp_path / "cann" / "lib64" if aside else tmp_path / "some") / library.name)
    found, _, _ = run(
        "traced(); print(tracing.detach().value)",
        LD_LIBRARY_PATH=str(tmp_path / "some"),
        ASCEND_HOME_PATH=str(tmp_path / "cann"),
    )
    assert found == Outcome.DONE
