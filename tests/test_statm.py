"""What the process holds, from the file of the system."""

import mmap
import os

import pytest
from ms_profiler.job.samplers import statm
from ms_profiler.job.samplers.statm import Statm
from recorders import descriptors


def test_what_is_taken_is_held_until_it_is_given_back():
    reader = Statm()
    before = reader.held()
    taken = bytearray(64 << 20)
    taken[:: 1 << 12] = b"x" * (len(taken) >> 12)
    assert 60 << 20 < reader.held() - before < 72 << 20
    del taken
    assert reader.held() - before < 8 << 20
    reader.close()


def test_what_belongs_to_files_does_not_count(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(64 << 20))
    reader = Statm()
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        before = reader.held()
        assert sum(mapped[:: 1 << 12]) == 0
        assert reader.held() - before < 8 << 20
    reader.close()


def test_the_file_is_opened_once_and_closed():
    reader = Statm()
    reader.close()
    assert not reader.opened
    for _ in range(3):
        reader.held()
    assert reader.opened and descriptors().count(f"/proc/{os.getpid()}/statm") == 1
    reader.close()
    assert not reader.opened and f"/proc/{os.getpid()}/statm" not in descriptors()


def test_a_system_without_the_file_is_an_error(monkeypatch):
    monkeypatch.setattr(statm, "PATH", "/proc/self/no such file")
    reader = Statm()
    with pytest.raises(OSError, match="No such file"):
        reader.held()
    assert not reader.opened
