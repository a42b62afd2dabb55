"""The tests of packages that use PyTorch have the same results with the profiler and without, test for test."""

import os
import re
import subprocess

import pytest
from conftest import ROOT, environment

ENVIRONMENT = ROOT / ".venv" / "robustness"
PYTHON = ENVIRONMENT / "bin" / "python"
#: where `make test-robustness` puts the sources of the packages, with their tests
SOURCES = ENVIRONMENT / "sources"

#: package -> its tests that use PyTorch, relative to its sources, and arguments of pytest
PACKAGES = {
    "einops": (["einops/tests/test_ops.py", "einops/tests/test_layers.py", "einops/tests/test_einsum.py"], []),
    # This package decorates most functions, and its classes replace functions of PyTorch. Some of its tests count
    # warnings.
    "linear_operator": (["test/functions", "test/utils"], ["-W", "default"]),
    # This package has processes of multiprocessing that exchange data through gloo, and workers of loaders.
    "pytorch_ignite": (["tests/ignite/distributed/test_auto.py", "tests/ignite/engine/test_custom_events.py"], []),
    # This package is an extension in Cython whose layers contain layers of PyTorch and scripted ones.
    "thinc": (["tests/layers/test_pytorch_wrapper.py", "tests/layers/test_torchscriptwrapper.py", "tests/shims"], []),
}


def sources(package):
    """Return the folder that has the tests of a package: the folder of its sources, or the installed package."""
    fetched = SOURCES / package
    return fetched if fetched.is_dir() else next(ENVIRONMENT.glob(f"lib/python3*/site-packages/{package}"), fetched)


def outcomes(folder, package, options):
    """Run the tests of a package; return the exit code of pytest, the outcome of each test, and the last output."""
    files, words = PACKAGES[package]
    found = [str(sources(package) / file) for file in files]
    command = [str(PYTHON), "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly", "-rA", "-q", "--tb=no"]
    command += ["--color=no"]
    done = subprocess.run(
        [*command, "-W", "ignore", "--rootdir", str(sources(package)), *words, *found],
        env=environment(options, OMP_NUM_THREADS="1", EINOPS_TEST_BACKENDS="numpy,torch"),
        # in the folder of an installed package, the package's modules would hide modules of Python's library
        cwd=SOURCES / package if (SOURCES / package).is_dir() else folder,
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )
    lines = [
        line for line in done.stdout.splitlines() if re.match(r"(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b", line)
    ]
    return (
        done.returncode,
        sorted(re.sub(r" - .*", "", line) for line in lines),
        done.stdout[-2000:] + done.stderr[-2000:],
    )


@pytest.mark.parametrize("package", PACKAGES)
def test_the_tests_of_a_package_end_as_without(tmp_path, package):
    if not (sources(package) / PACKAGES[package][0][0]).exists():
        pytest.skip("its tests are not here; make test-robustness fetches them")
    bare = outcomes(tmp_path, package, None)
    options = {"start": True, "output_path": str(tmp_path / "data"), "analyse": "off", "record_shapes": True}
    profiled = outcomes(tmp_path, package, options)
    assert profiled[:2] == bare[:2], profiled[2]
    assert len([line for line in bare[1] if line.startswith("PASSED")]) > 10, bare[2]
    assert os.listdir(tmp_path / "data")
