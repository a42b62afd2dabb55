"""The memory of the process is read from the system's file."""

import mmap

import pytest
from ms_profiler.job.samplers import statm


def test_allocated_memory_counts_until_it_is_freed():
    before = statm.held()
    taken = bytearray(64 << 20)
    taken[:: 1 << 12] = b"x" * (len(taken) >> 12)
    assert 60 << 20 < statm.held() - before < 72 << 20
    del taken
    assert statm.held() - before < 8 << 20


def test_pages_of_files_do_not_count(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(64 << 20))
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        before = statm.held()
        assert sum(mapped[:: 1 << 12]) == 0
        assert statm.held() - before < 8 << 20


def test_a_system_without_the_file_is_an_error(monkeypatch):
    monkeypatch.setattr(statm, "PATH", "/proc/self/no such file")
    with pytest.raises(OSError, match="No such file"):
        statm.held()
