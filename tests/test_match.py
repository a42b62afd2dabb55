"""Times of another clock are converted to ours, even if that clock is set during the run."""

import shutil
import subprocess

import pytest
from test_tsc import COMPILER, ROOT


def test_native(tmp_path):
    if shutil.which(COMPILER) is None:
        pytest.skip(f"no C compiler, {COMPILER}")
    flags = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'native'}", "-pthread"]
    sources = [
        ROOT / "tests" / "native" / "match.c",
        ROOT / "native" / "devices" / "match.c",
        ROOT / "native" / "tsc.c",
    ]
    subprocess.run([COMPILER, *flags, *sources, "-o", tmp_path / "match"], check=True)
    done = subprocess.run([tmp_path / "match"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
