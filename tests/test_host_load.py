"""Numbers of the host become counters of threads."""

import polars as pl
from ms_profiler.analysis.metrics import host_load
from ms_profiler.analysis.readers import store as reader
from store_builder import training


def test_numbers_of_a_process_without_known_threads_become_no_counters(tmp_path, monkeypatch):
    recording = reader.read(str(training(tmp_path).write()))
    before = recording.counters
    numbers = pl.DataFrame(
        {"process": [999], "name": ["busy"], "native_tid": [0], "unit": ["%"], "start_ns": [0], "value": [1.0]}
    ).cast({"process": pl.UInt32})
    monkeypatch.setattr(host_load, "shown", lambda recording: numbers)
    monkeypatch.setattr(host_load, "averaged", lambda host, recording, most: host)
    assert not recording.threads.is_empty()
    host_load.draw(recording)
    assert recording.counters.equals(before)
