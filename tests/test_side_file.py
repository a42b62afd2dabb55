"""Files beside the records appear whole or not at all."""

import errno
import json
import os
import resource
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


def test_a_file_beyond_the_limit_of_the_process_does_not_end_the_job(tmp_path):
    path = layout.network_path(str(tmp_path), 0)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
            side_file.write(HOST, path, "x" * 10_000)
        except OSError as error:
            code = 0 if error.errno == errno.EFBIG else 1
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert os.listdir(os.path.dirname(path)) == []
