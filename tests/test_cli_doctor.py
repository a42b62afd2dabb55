"""`ms-profiler doctor` finds the devices and names missing parts, even if a library crashes."""

import subprocess
import sys

import pytest
from conftest import environment
from fakes_built import ASCEND, ascend_fakes, build, fakes  # noqa: F401
from ms_profiler.job.devices import cupti, survey


def doctor(interface="CUPTI", **extra):
    """Return the command's lines about an interface, in a user's environment with further variables."""
    command = [sys.executable, "-m", "ms_profiler", "doctor"]
    done = subprocess.run(command, env=environment(**extra), capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    heads = [at for at, line in enumerate(lines) if line.startswith(("CUPTI", "aclprof", "msPTI"))]
    assert [lines[at].split()[0] for at in heads] == ["CUPTI", "aclprof", "msPTI"]
    begin = next(at for at in heads if lines[at].startswith(interface))
    return lines[begin : min([at for at in heads if at > begin], default=len(lines))]


def with_fakes(folder, words=""):
    return doctor(LD_LIBRARY_PATH=str(folder), MS_PROFILER_LIBCUPTI=str(folder / "libcupti.so.12"), FAKE_CUPTI=words)


def test_a_usable_interface(fakes):  # noqa: F811
    assert with_fakes(fakes) == [
        "CUPTI (GPUs of NVIDIA): usable",
        f"    library {fakes / 'libcupti.so.12'}, version 26",
        "    devices 1",
    ]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("owned", "it belongs to another profiler or debugger of this process"),
        ("no-kernels", "cuptiActivityEnable answered 15, CUPTI_ERROR_OF_THE_FAKE"),
        ("segfaults", "its library crashes (SIGSEGV); use another version of it"),
    ],
)
def test_an_unusable_interface(fakes, words, why):  # noqa: F811
    first, *others = with_fakes(fakes, words)
    assert first == "CUPTI (GPUs of NVIDIA): not usable"
    assert others[-1] == f"    {why}"


def test_without_a_driver_nothing_is_called(fakes, tmp_path):  # noqa: F811
    (tmp_path / "libcupti.so.12").write_bytes((fakes / "libcupti.so.12").read_bytes())
    log = tmp_path / "log"
    library = str(tmp_path / "libcupti.so.12")
    lines = doctor(MS_PROFILER_LIBCUPTI=library, FAKE_CUPTI="crashes", FAKE_CUPTI_LOG=str(log))
    assert lines[:2] == ["CUPTI (GPUs of NVIDIA): not usable", f"    library {library}"]
    assert lines[2].startswith("    there is no driver (libcuda.so.1")
    assert not log.exists()


def test_a_real_library_without_a_device_does_no_harm(fakes, tmp_path):  # noqa: F811
    """The command tries the real library of this machine, if there is one, with a driver that has no device."""
    real = next(cupti.PLACES.present(), "")
    if not real:
        pytest.skip("there is no CUPTI here")
    (tmp_path / "libcuda.so.1").write_bytes((fakes / "libcuda.so.1").read_bytes())
    first, *others = doctor(LD_LIBRARY_PATH=str(tmp_path), MS_PROFILER_LIBCUPTI=real)
    assert first == "CUPTI (GPUs of NVIDIA): not usable"
    assert "cuptiSubscribe answered" in others[-1] or "crashes" in others[-1]


def test_a_driver_without_devices(fakes):  # noqa: F811
    lines = doctor(LD_LIBRARY_PATH=str(fakes), FAKE_CUDA_DEVICES="0")
    assert lines[-1] == "    the driver has no device; see CUDA_VISIBLE_DEVICES"


def test_a_library_that_does_not_answer_is_given_up(monkeypatch):
    def hangs(*_, **__):
        raise subprocess.TimeoutExpired("probe", survey.PATIENCE)

    monkeypatch.setattr(subprocess, "run", hangs)
    for finding in survey.survey():
        assert finding.why == "its library did not answer within 120 s"


def with_ascend(folder, words="", **extra):
    return doctor("msPTI", LD_LIBRARY_PATH=str(folder), FAKE_MSPTI=words, **extra)


def test_an_npu_that_can_be_traced(ascend_fakes, tmp_path):  # noqa: F811
    """The command prints the library with CANN's version. A library without preloading records no memory."""
    home = tmp_path / "cann"
    (home / "lib64").mkdir(parents=True)
    (home / "version.info").write_text("[ver]\nVersion=8.5.0\n")
    (home / "lib64" / "libmspti.so").write_bytes((ascend_fakes / "libmspti.so").read_bytes())
    assert with_ascend(ascend_fakes, ASCEND_HOME_PATH=str(home)) == [
        "msPTI (NPUs of Ascend): usable",
        f"    library {home}/lib64/libmspti.so, version CANN 8.5.0",
        "    devices 1",
        "    msPTI refuses memory (not preloaded), sets (not preloaded), copies (not preloaded); start the job with "
        "`ms-profiler run`, which preloads it",
    ]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("owned", "it belongs to another profiler or debugger of this process"),
        ("fails", "msptiSubscribe answered 999"),
        ("no-kernels", "msptiActivityEnable answered 999 for kernels"),
    ],
)
def test_an_npu_that_cannot(ascend_fakes, words, why):  # noqa: F811
    first, *others = with_ascend(ascend_fakes, words)
    assert first == "msPTI (NPUs of Ascend): not usable"
    assert others[-1] == f"    {why}"


@pytest.mark.parametrize(
    ("missing", "why"),
    [
        ("libascend_hal.so", "there is no driver (libascend_hal.so: cannot open"),
        ("libascendcl.so", "there is no runtime (libascendcl.so: cannot open"),
        (
            "libprofapi.so",
            "libprofapi.so is missing, and msPTI would end the job without it; source CANN's set_env.sh (",
        ),
        ("libmspti.so", "there is no msPTI; install CANN's toolkit, 8.0 or newer, and source CANN's set_env.sh"),
    ],
)
def test_missing_libraries_of_an_npu_are_named(tmp_path, missing, why):
    build(tmp_path, {name: made for name, made in ASCEND.items() if name != missing})
    first, *others = with_ascend(tmp_path)
    assert first == "msPTI (NPUs of Ascend): not usable"
    assert others[-1].startswith(f"    {why}")


def test_no_npu_behind_the_driver(ascend_fakes):  # noqa: F811
    assert with_ascend(ascend_fakes, FAKE_NPUS="0")[-1] == (
        "    the driver has no device; see ASCEND_RT_VISIBLE_DEVICES"
    )


def test_an_npu_that_is_not_there(tmp_path):
    toolkit = tmp_path / "toolkit"
    (toolkit / "lib64").mkdir(parents=True)
    (toolkit / "lib64" / "libmsprofiler.so").touch()
    assert doctor("aclprof", ASCEND_HOME_PATH=str(toolkit)) == [
        "aclprof (NPUs of Ascend with their counters, for CANN's msprof to read): not usable",
        f"    library {toolkit / 'lib64' / 'libmsprofiler.so'}",
        "    there is no NPU (/dev/davinci0); install Ascend's driver",
    ]
