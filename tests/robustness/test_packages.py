"""Packages that use PyTorch have the same results, function for function, with the profiler and without."""

import os
import re
import subprocess

import pytest
from conftest import ROOT, environment

ENVIRONMENT = ROOT / ".venv" / "robustness"
PYTHON = ENVIRONMENT / "bin" / "python"
#: where `make test-robustness` puts the sources of their tests
SOURCES = ENVIRONMENT / "sources"

#: package -> tests of its own that use PyTorch, relative to its sources, and arguments of pytest
PACKAGES = {
    "einops": (["einops/tests/test_ops.py", "einops/tests/test_layers.py", "einops/tests/test_einsum.py"], []),
}


def outcomes(folder, package, options):
    """Return the outcome of each test of a package, and the exit code of pytest."""
    files, words = PACKAGES[package]
    found = [str(SOURCES / package / file) for file in files]
    command = [str(PYTHON), "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly", "-rA", "-q", "--tb=no"]
    done = subprocess.run(
        [*command, "-W", "ignore", "--rootdir", str(SOURCES / package), *words, *found],
        env=environment(options, OMP_NUM_THREADS="1", EINOPS_TEST_BACKENDS="numpy,torch"),
        cwd=SOURCES / package,
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
    if not (SOURCES / package).is_dir():
        pytest.skip("its sources are not here; make test-robustness fetches them")
    bare = outcomes(tmp_path, package, None)
    options = {"start": True, "output_path": str(tmp_path / "data"), "analyse": "off", "record_shapes": True}
    profiled = outcomes(tmp_path, package, options)
    assert profiled[:2] == bare[:2], profiled[2]
    assert len([line for line in bare[1] if line.startswith("PASSED")]) > 10, bare[2]
    assert os.listdir(tmp_path / "data")
