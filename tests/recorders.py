"""The recorders that every test of the protocol runs on."""

from ms_profiler.job.recorder.python import PythonRecorder

#: mapped and written: segments that are the file's own pages, and segments that are copied to it
KINDS = ("native", "native-written", "python", "python-written")


def make(kind):
    """Return a recorder by its name in `KINDS`."""
    name, _, written = kind.partition("-")
    if name == "python":
        return PythonRecorder(written=bool(written))
    from ms_profiler.job.recorder.native import NativeRecorder

    return NativeRecorder(written=bool(written))
