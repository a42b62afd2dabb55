"""The two ends of a marker's range are joined by their number, which also gives markers of streams their names."""

import pytest
from fakes_built import ascend_fakes  # noqa: F401
from ms_profiler.store.device_format import Device
from ms_profiler.store.format import Kind
from traced import records, run_ascend  # noqa: F401


@pytest.fixture
def run(run_ascend):  # noqa: F811
    """Return a function that runs a program with the fake libraries of CANN."""
    return run_ascend


def heads(store):
    """Return (type, name) of each device record in a store, in order."""
    return [(kind, name) for what, kind, name, _ in records(store) if what == Kind.DEVICE]


def test_ranges_of_markers_are_joined_by_their_numbers(run):
    """A stream's marker has no name. It gets the name of the host's marker with the same number."""
    found, _, store = run("""
npu = traced()
npu.fake_marker(4, 1, b"", b"", -1)  # the end of what began before recording did
npu.fake_marker(2, 2, b"outer", b"mine", -1)
npu.fake_marker(2, 3, b"both", b"yours", 7)
npu.fake_marker(2, 4, b"inner", b"default", -1)
npu.fake_marker(1, 5, b"moment", b"mine", 9)
tracing.flush()
npu.fake_marker(4, 4, b"", b"", -1)
npu.fake_marker(4, 3, b"", b"", 7)
npu.fake_marker(4, 2, b"", b"", -1)
npu.fake_marker(2, 6, b"never ends", b"mine", -1)
npu.fake_kernel(b"after", None, 1, npu.fake_now() + 10000, 10)
npu.fake_synchronize()
tracing.detach(); recorder.close()
print(json.dumps([counts(), os.getpid()]))
""")
    counted, thread = found
    assert (counted["records"], counted["unfinished"]) == (8, 1)
    rows = records(store)
    marks = sorted(
        (name, rows[at + 1][2], row["arg"] >> 32, rows[at + 1][3]["start_ns"] >> 32, row["end_ns"] > row["start_ns"])
        for at, (what, kind, name, row) in enumerate(rows)
        if (what, kind) == (Kind.DEVICE, Device.MARKER)
    )
    # name, domain, thread, stream, whether it is a range
    assert marks == [
        ("both", "yours", 0, 7, True),
        ("both", "yours", thread, 0, True),
        ("inner", "default", thread, 0, True),
        ("moment", "mine", 0, 9, False),
        ("moment", "mine", thread, 0, False),
        ("outer", "mine", thread, 0, True),
    ]


def test_more_open_ranges_than_are_kept_cost_the_oldest(run):
    found, _, store = run("""
npu = traced()
for number in range(520):
    npu.fake_marker(2, number, str(number).encode(), b"mine", -1)
npu.fake_marker(4, 0, b"", b"", -1)
npu.fake_marker(4, 519, b"", b"", -1)
tracing.detach(); recorder.close()
print(json.dumps(counts()))
""")
    assert (found["records"], found["unfinished"]) == (1, 519)
    assert heads(store) == [(Device.MARKER, "519")]
