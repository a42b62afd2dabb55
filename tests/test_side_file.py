"""Files beside the records appear whole or not at all."""

import json
import os
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
from ms_profiler.job.frameworks import side_file
from ms_profiler.store import layout

HOST = SimpleNamespace(asks=lambda option: False, recorder=SimpleNamespace(spend=lambda count: None))


def test_a_process_that_is_killed_while_it_writes_leaves_no_file(tmp_path, monkeypatch):
    def opened(descriptor, mode):
        os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        try:
            monkeypatch.setattr(side_file, "open", opened)
            side_file.write(HOST, layout.tape_path(str(tmp_path), 0), {"nodes": []})
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert layout.tapes(str(tmp_path)) == []


def test_a_file_is_written_once(tmp_path):
    path = layout.network_path(str(tmp_path), 0)
    side_file.write(HOST, path, {"first": 1})
    with pytest.raises(FileExistsError):
        side_file.write(HOST, path, {"second": 2})
    assert json.loads(Path(path).read_text()) == {"first": 1}
    assert os.listdir(os.path.dirname(path)) == [os.path.basename(path)]


def test_a_failure_leaves_no_part(tmp_path, monkeypatch):
    def opened(descriptor, mode):
        os.close(descriptor)
        raise OSError("the disk is full")

    path = layout.tape_path(str(tmp_path), 0)
    with monkeypatch.context() as patch:
        patch.setattr(side_file, "open", opened)
        with pytest.raises(OSError, match="full"):
            side_file.write(HOST, path, {})
    assert os.listdir(os.path.dirname(path)) == []
    side_file.write(HOST, path, {})
    assert layout.tapes(str(tmp_path)) == [path]
