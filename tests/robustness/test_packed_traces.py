"""A trace of eight megabytes that unpacks to gigabytes is read or refused with one line, in limited memory."""

import gzip
import json
import resource
import subprocess

import pytest
from conftest import environment
from launches import TOOLS

#: bytes of each packed part
PART = 1 << 24
#: bytes of address space that the command may use
MEMORY = 2 << 30
EVENT = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
#: Kind of file -> begin, a byte that is repeated, end, gigabytes of that byte. 16 MB of brackets take half a second.
KINDS = {
    "spaces": (b'{"traceEvents": [' + json.dumps(EVENT).encode() + b",", b" ", b"]}", 8),
    "a name": (b'{"traceEvents": [{"ph": "X", "ts": 1, "dur": 1, "name": "', b"a", b'"}]}', 8),
    "a key": (b'{"', b"k", b'": 1, "traceEvents": []}', 8),
    "brackets": (b'{"traceEvents": [{"args": ', b"[", b"}]}", 1),
    "zero bytes": (b"", b"\0", b"", 8),
}


def limited(path):
    """Run the command that summarises a trace, with limited memory, and return the finished process."""
    return subprocess.run(
        [TOOLS / "ms-profiler", "summary", path],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_gigabytes_are_read_or_refused(kind, tmp_path):
    begin, byte, end, size = KINDS[kind]
    path = tmp_path / "rank0.pt.trace.json.gz"
    path.write_bytes(gzip.compress(begin) + (size << 30) // PART * gzip.compress(PART * byte, 9) + gzip.compress(end))
    assert path.stat().st_size < 20 << 20
    done = limited(path)
    # exit code 2: the file has no event that can be read
    assert "Traceback" not in done.stderr and done.returncode in (0, 2), done.stderr
    said = [line for line in done.stderr.splitlines() if path.name in line]
    assert done.returncode == 0 or len(said) == 1, done.stderr


def test_texts_of_sixty_megabytes_are_cut(tmp_path):
    """Tables copy the texts of a trace often. If memory does not suffice for the copies, Polars ends the process."""
    long = "a" * 62_000_000
    path = tmp_path / "rank0.pt.trace.json.gz"
    with gzip.open(path, "wt", compresslevel=1) as stream:
        stream.write('{"distributedInfo": {"rank": 0, "world_size": 1, "pg_config": [{"pg_name": "')
        stream.write(long + '"}]}, "traceEvents": [')
        events = [EVENT, EVENT | {"ts": 3, "name": long}, EVENT | {"ts": 5, "args": {"stream": long}}]
        for number, event in enumerate(events):
            stream.write("," * (number > 0) + json.dumps(event))
        stream.write("]}")
    del long, events
    done = limited(path)
    assert (done.returncode, done.stderr) == (0, "")
    summary = json.loads((tmp_path / "rank0.pt.trace_analysis" / "summary.json").read_text())
    assert max(map(len, texts(summary))) < 1 << 17
    assert (
        sum(path.stat().st_size for path in tmp_path.glob("rank0.pt.trace_analysis/**/*") if path.is_file()) < 1 << 22
    )


def texts(value):
    """Return all texts and numbers in a JSON value, as texts."""
    if isinstance(value, dict):
        return [text for item in value.items() for text in texts(item)]
    if isinstance(value, (list, tuple)):
        return [text for item in value for text in texts(item)]
    return [str(value)]
