"""Garbage collections are recorded, and ms-profiler leaves no callback behind."""

from events import events, named

JOB = """
import gc, sys
from ms_profiler.job.samplers import garbage
import torch
known = [callback for callback in gc.callbacks if getattr(callback, "__module__", "") == garbage.__name__]
print(len(known))
for _ in range(3):
    gc.collect()
gc.collect(0)
from ms_profiler.job import collection
for plugin in collection.current().hooks.plugins:
    plugin.undo()
gc.collect()
print(len([callback for callback in gc.callbacks if getattr(callback, "__module__", "") == garbage.__name__]))
"""


def test_full_collections_are_recorded_until_the_hooks_are_undone(job):
    run = job(JOB, options={"analyse": "off"})
    assert (run.code, run.out.split()) == (0, ["1", "0"]), run.err
    collections = named(events(run.result), "garbage collection, generation 2")
    assert len(collections) >= 3
    assert all(event.end > event.start for event in collections)
