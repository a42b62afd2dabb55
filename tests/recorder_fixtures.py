"""Fixtures for the tests of the recorders."""

import subprocess

import pytest
from recorders import KINDS, make


@pytest.fixture(params=KINDS)
def recorder(request):
    """Return a recorder of each kind in turn; close it after the test, even if the test fails."""
    recorder = make(request.param)
    yield recorder
    recorder.close()


@pytest.fixture
def folder(tmp_path):
    """Make the directory for the recorder's segments and return it."""
    path = tmp_path / "store"
    path.mkdir()
    return path


@pytest.fixture
def mounted(tmp_path):
    """Return a function that mounts a file system for this test and returns its directory, or skips the test."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounts = []

    def mount(*options):
        if subprocess.run(["mount", *options, str(disk)], capture_output=True, check=False).returncode:
            pytest.skip("needs the right to mount a file system")
        mounts.append(disk)
        return disk

    yield mount
    for mount_point in mounts:
        subprocess.run(["umount", str(mount_point)], check=True)
