"""Exceptions of the job's signal handlers leave no tracing interface attached, and the later steps are recorded."""

import json
import subprocess
import sys

import pytest
from conftest import PROGRAMS, environment
from fakes_built import ascend_fakes, counter_fakes, fakes, loading  # noqa: F401

#: name of the interface -> fixture with the fake libraries, library of the interface, the library that the job loads
INTERFACES = {
    "CUPTI": ("fakes", "libcupti.so.12", "libcuda.so.1"),
    "msPTI": ("ascend_fakes", "libmspti.so", "libascendcl.so"),
    "aclprof": ("counter_fakes", "libmsprofiler.so", "libascendcl.so"),
}


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info < (3, 11), reason="needs the table of exception handlers of a code object")
@pytest.mark.parametrize("interface", ["CUPTI", "msPTI", "aclprof"])
def test_an_exception_in_any_place_reaches_the_job_and_the_device_is_recorded_afterwards(request, tmp_path, interface):
    fixture, library, driver = INTERFACES[interface]
    folder, vendor, log = request.getfixturevalue(fixture), interface.upper(), tmp_path / "log"
    (tmp_path / "store").mkdir()
    words = {
        "PYTHONPATH": str(PROGRAMS.parent),
        f"FAKE_{vendor}_LOG": str(log),
        "FAKE_ACL_DEVICE": "0",
        **loading(folder, vendor, library),
    }
    command = [sys.executable, PROGRAMS / "device_alarms.py", interface, driver, tmp_path, log]
    run = subprocess.run(command, env=environment(**words), capture_output=True, text=True, timeout=300, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    done = json.loads(run.stdout)
    assert done["places"] > 100
    assert done["failures"] == []
