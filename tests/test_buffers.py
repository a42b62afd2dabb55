"""Buffers for records work: many at once, from many threads, and if there are too many records for them."""

import pytest
from fakes_built import fakes  # noqa: F401
from ms_profiler.store.device_format import Device
from ms_profiler.store.format import Kind
from traced import records, run  # noqa: F401


def test_kernels_of_other_threads_and_many_buffers(run):  # noqa: F811
    found, _, store = run("""
import threading
gpu = traced()
names = [b"kernel %d" % number for number in range(3)]
def work(stream):
    for _ in range(20000):
        gpu.fake_launch(names[stream], stream, 0, 10, 0)
threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
for number in range(3): gpu.fake_synchronize(number)
tracing.detach(); recorder.close()
print(json.dumps([counts(), [thread.native_id for thread in threads]]))
""")
    counted, threads = found
    assert counted["lost"] == counted["dropped"] == counted["unfinished"] == 0
    rows = records(store)
    calls = {row["arg"] % 2**32: row["arg"] >> 32 for what, kind, _, row in rows if kind == Device.API}
    launched = [
        (name, calls[row["arg"]]) for what, kind, name, row in rows if (what, kind) == (Kind.DEVICE, Device.KERNEL)
    ]
    assert len(launched) == 60000
    assert set(launched) == {(f"kernel {number}", thread) for number, thread in enumerate(threads)}


#: number of launches while the reader gives no buffer back
TOO_MANY = 250000


@pytest.mark.parametrize("words", ["new", ""])
def test_records_without_a_buffer_are_counted(run, words):  # noqa: F811
    """Without free buffers, a newer library refuses further records.

    An older one gets scratch buffers up to a limit.
    """
    found, calls, _ = run(
        f"""
gpu = traced()
gpu.fake_keep(1)
for _ in range({TOO_MANY}): gpu.fake_launch(b"one", 7, 0, 10, 0)
gpu.fake_keep(0)
gpu.fake_synchronize(7)
tracing.detach(); recorder.close()
print(json.dumps(counts()))
""",
        words=words,
    )
    kept = found["records"] + found["lost"]
    assert found["records"] > 300000
    if words:
        assert (found["lost"], found["stopped"]) == (0, 0)
        assert found["dropped"] == 2 * TOO_MANY + 2 - kept > 0
    else:
        assert (found["dropped"], found["stopped"]) == (0, 1)
        assert 0 < found["lost"] < 2 * TOO_MANY + 2 - found["records"]
        assert [name for name, _ in calls].count("Disable") == 9
