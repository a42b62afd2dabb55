"""Each marker of a device's interface appears once, on the thread that set it or in the lane of a stream."""

import json

import perfetto_reader
import pytest
from ms_profiler.analysis.driver.engine import analyse
from ms_profiler.analysis.readers import store as reader
from ms_profiler.store.device_format import Device, Source
from ms_profiler.store.format import Category, Flag
from store_builder import MS, WALL_NS, StoreBuilder, folder_of
from test_device_sources import MINDSPORE

US = 1000


def marked(parent, **info):
    """Build a run with markers of all kinds: on threads, on a stream, in domains, and beside a marker of the script."""
    store = StoreBuilder(parent, framework=MINDSPORE, **info)
    thread = store.process().thread()

    def mark(name, start, end, *, domain="default", by=thread.native_tid, stream=0):
        place = (0, stream, 0, 0)
        thread.device(Device.MARKER, name, start, end, 1, thread=by, place=place, detail=domain, source=Source.MSPTI)

    thread.span("MatMul", Category.OP, 2 * MS, 3 * MS)
    mark("range", MS, 5 * MS)
    mark("in it", 2 * MS, 4 * MS, domain="mine")
    mark("a moment", 6 * MS, 6 * MS, domain="mine")
    thread.span("mine: both", Category.MARKER, 7 * MS + 20 * US, 8 * MS)
    mark("both", 7 * MS, 8 * MS, domain="mine")
    mark("elsewhere", MS, 2 * MS, by=999_999)
    place = {"place": (0, 7, 0, 0), "source": Source.MSPTI}
    thread.device(Device.KERNEL, "Add", 2 * MS, 3 * MS, 1, detail="KERNEL_AIVEC", **place)
    mark("on the stream", 2 * MS, 4 * MS, domain="mine", by=0, stream=7)
    thread.step(0, 0, 5 * MS)
    thread.step(1, 5 * MS, 10 * MS, flags=info.get("options", {}).get("left", 0))
    return store


def texts(recording, table):
    return list(zip(recording.names.gather(table["name"]), table["category"], strict=True))


def test_markers_of_the_host_are_on_their_threads(tmp_path):
    recording = reader.read(str(marked(tmp_path).write()))
    marks = [name for name, kind in texts(recording, recording.spans) if kind == Category.MARKER]
    assert marks == ["range", "mine: in it", "mine: both"]
    assert texts(recording, recording.instants) == [("mine: a moment", Category.MARKER)]
    assert recording.instants["time_ns"].to_list() == [WALL_NS + 6 * MS]
    assert recording.info.not_collected == [
        {"what": "1 markers", "why": "nothing else was recorded on the threads that set them"}
    ]


def test_they_nest_as_other_spans_do(tmp_path):
    recording = reader.read(str(marked(tmp_path).write()))
    by_name = dict(zip(recording.names.gather(recording.spans["name"]), recording.spans["depth"], strict=True))
    assert (by_name["range"], by_name["mine: in it"]) == (0, 1)


def test_a_step_that_is_left_out_has_none(tmp_path):
    recording = reader.read(str(marked(tmp_path, options={"left": int(Flag.UNRECORDED)}).write()))
    assert recording.instants.is_empty()


def test_markers_of_a_device_are_drawn_with_their_domain(tmp_path):
    path = marked(tmp_path).write()
    analyse([path])
    events = json.loads((folder_of(path) / "trace_view.json").read_text())
    (drawn,) = [event for event in events if event.get("name") == "on the stream"]
    assert (drawn["tid"], drawn["dur"], drawn["args"]) == (7, "2000.000", {"domain": "mine"})
    timeline = perfetto_reader.read(folder_of(path) / "trace.pftrace")
    (piece,) = [piece for piece in timeline.slices if piece.name == "on the stream"]
    assert (piece.category, piece.args["domain"], timeline.lane(piece.track)[1]) == ("marker", "mine", "Stream 7")


@pytest.mark.parametrize(("option", "kept"), [("include", ["mine: in it", "mine: both"]), ("exclude", ["range"])])
def test_unwanted_domains_are_left_out(tmp_path, option, kept):
    recording = reader.read(str(marked(tmp_path, options={f"mstx_domain_{option}": ["mine"]}).write()))
    assert [name for name, kind in texts(recording, recording.spans) if kind == Category.MARKER] == kept
