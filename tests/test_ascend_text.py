import gzip
import json

import pytest
from ascend_builder import TASKS, absolute, sample
from ms_profiler.analysis.model.tables import Form
from ms_profiler.analysis.readers import ascend_text, foreign
from ms_profiler.cli import main
from ms_profiler.errors import StoreError


def tasks(path):
    recording = ascend_text.read(str(path))
    columns = ("stream", "name", "type", "core", "group", "exchange", "launch_ns")
    return recording.device.tasks.select(*columns).rows(), recording


def test_table_and_trace_together(tmp_path):
    rows, recording = tasks(sample(tmp_path).text())
    assert rows == TASKS and not recording.counts.damaged and recording.device.unmarked
    assert recording.device.files == ["trace_view.json", "kernel_details.csv"]
    assert recording.device.calls.select("level", "name").rows() == [("node", "launch")]
    assert recording.steps.select("number", "source").rows() == [(1, 1)]
    named = dict(zip(recording.names, range(100), strict=False))
    assert {recording.names[row[0]]: row[1] for row in recording.spans.select("name", "category").iter_rows()} == {
        "aten::mm": 0x41,
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__": 4,
        "Optimizer.step#SGD.step": 9,
        "Node@launch": 0,
    }
    assert "ProfilerStep#1" not in named
    assert recording.threads["native_tid"].to_list() == [4242, 4300]


def test_trace_alone_has_no_types(tmp_path):
    rows, recording = tasks(sample(tmp_path).text(table=False))
    assert rows == [(*row[:2], None if not row[5] else row[2], *row[3:]) for row in TASKS]
    assert "op_statistic.csv" in {item["what"] for item in recording.info.not_collected}


def test_table_without_types_takes_streams_from_the_trace(tmp_path):
    rows, _ = tasks(sample(tmp_path).text(typed=False))
    assert [(row[0], row[2], row[3]) for row in rows if not row[5]] == [(2, None, "N/A"), (3, None, "N/A")]


def test_table_alone(tmp_path):
    rows, recording = tasks(sample(tmp_path).text(trace=False))
    assert [row[:4] for row in rows] == [row[:4] for row in TASKS if not row[5]]
    assert recording.steps.is_empty() and not recording.device.unmarked


def test_exchanges_of_the_table_where_the_trace_has_none(tmp_path):
    made = sample(tmp_path)
    made.exchanges.clear()
    made.kernel("hcom_send__001_0_1", 60, 70, kind="hcom_send_", core="HCCL")
    rows, _ = tasks(made.text(hardware=False))
    assert [row[1:6] for row in rows if row[5]] == [("hcom_send__001_0_1", "hcom_send_", "HCCL", "", True)]


def test_exchanges_of_the_table_alone_have_no_stream(tmp_path, capsys):
    """Newer versions of the vendor's tools write N/A as the stream; ms-profiler draws the timeline nevertheless."""
    path = sample(tmp_path).text(trace=False)
    table = path / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv"
    header, *lines = table.read_text().splitlines()
    columns = dict.fromkeys(header.split(","), "N/A")
    columns |= {"Name": "hcom_send__001_0_1", "Type": "hcom_send_", "Accelerator Core": "HCCL"}
    columns |= {"Start Time(us)": absolute(60), "Duration(us)": "10.000"}
    table.write_text("\n".join([header, *lines, ",".join(columns.values())]) + "\n")
    rows, recording = tasks(path)
    assert rows[-1][:4] == (0, "hcom_send__001_0_1", "hcom_send_", "HCCL") and not recording.counts.damaged
    assert main(["analyse", str(path)]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("framework", ["Python", "MindSpore"])
def test_a_trace_that_lies_by_itself(tmp_path, capsys, framework):
    made = sample(tmp_path).text(table=False)
    alone = tmp_path / "trace_view.json"
    text = (made / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text()
    alone.write_text(text.replace('"Python"', f'"{framework}"'))
    recording = foreign.read(str(alone), frozenset())
    form = {"Python": Form.TORCH_NPU, "MindSpore": Form.MINDSPORE}[framework]
    name = {"Python": "torch", "MindSpore": "mindspore"}[framework]
    assert recording.device.form == form and recording.info.framework["name"] == name
    assert recording.device.tasks.equals(ascend_text.read(str(made)).device.tasks)
    assert main(["analyse", str(alone)]) == 0
    summary = json.loads((tmp_path / "trace_view_analysis" / "summary.json").read_text())
    assert summary["device"]["streams"] == 3 and not recording.info.rank_known


def test_processes_of_newer_tools_and_lanes_of_the_vendor(tmp_path):
    path = sample(tmp_path).text()
    trace = path / "ASCEND_PROFILER_OUTPUT" / "trace_view.json"
    events = json.loads(trace.read_text().replace('"HCCL"', '"Communication"'))
    events += [
        {"ph": "M", "name": "process_name", "pid": 9, "tid": 0, "args": {"name": "Overlap Analysis"}},
        {"ph": "X", "name": "Computing", "pid": 9, "tid": 0, "ts": absolute(10), "dur": 20, "args": {}},
    ]
    trace.write_text(json.dumps(events))
    rows, recording = tasks(path)
    assert rows == TASKS and not recording.device.unmarked


def test_kernels_on_the_processor(tmp_path):
    path = tmp_path / "a_1_2_ascend_ms" / "ASCEND_PROFILER_OUTPUT"
    path.mkdir(parents=True)
    events = []
    for pid, name in ((1, "MindSpore"), (2, "CPU OP")):
        events.append({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}})
        events.append({"ph": "M", "name": "process_labels", "pid": pid, "tid": 0, "args": {"labels": "CPU"}})
    kernel = "Default/net/fc-Dense/MatMul-op0"
    events.append({"ph": "X", "name": "RunGraph", "pid": 1, "tid": 5, "ts": "10.000", "dur": "50.000"})
    events.append({"ph": "X", "name": kernel, "pid": 2, "tid": 6, "ts": "20.000", "dur": "5.000"})
    (path / "trace_view.json").write_text(json.dumps(events))
    rows, recording = tasks(path.parent)
    assert rows == [(6, kernel, "MatMul", "HOST_CPU", None, False, None)] and recording.spans.height == 1


def test_damage_is_counted(tmp_path):
    path = sample(tmp_path).text()
    table = path / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv"
    whole = table.read_bytes()
    table.write_bytes(whole + b"2,Bad,Add,AI_CORE,soon,1,0\n\xff\xfe,Cut,Add\n")
    rows, recording = tasks(path)
    assert len(rows) == 3 and recording.counts.damaged_kernels == 2
    table.write_bytes(whole[: whole.index(b"Add1") + 20])
    rows, recording = tasks(path)
    assert len(rows) == 2 and recording.counts.damaged_kernels == 1


PACKED = [b"\x1f\x8b", b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda", b"\x28\xb5\x2f\xfd"]


@pytest.mark.parametrize("content", [b"", b"\x00\xff" * 50, b"a,b\n1,2\n", b'Name,"Type\n', *PACKED])
def test_trace_is_used_where_the_table_is_of_no_use(tmp_path, content):
    path = sample(tmp_path).text()
    (path / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv").write_bytes(content)
    rows, recording = tasks(path)
    assert len(rows) == 3 and recording.counts.damaged_files


def test_a_packed_table_is_not_unpacked(tmp_path):
    """It could fill the memory of the machine."""
    path = sample(tmp_path).text()
    table = path / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv"
    table.write_bytes(gzip.compress(table.read_bytes() + b"2,Bad,Add,AI_CORE,soon,1,0\n"))
    rows, recording = tasks(path)
    assert len(rows) == 3 and recording.counts.damaged_kernels == 0
    assert recording.counts.damaged_files == [("kernel_details.csv", "begins like packed data, and not like text")]


def test_nothing_to_read(tmp_path):
    path = sample(tmp_path).text()
    output = path / "ASCEND_PROFILER_OUTPUT"
    with pytest.raises(StoreError, match="holds neither"):
        ascend_text.read(str(path), frozenset(f"ASCEND_PROFILER_OUTPUT/{file.name}" for file in output.iterdir()))
    for file in output.iterdir():
        file.write_text("")
    with pytest.raises(StoreError, match=r"holds no event that can be read \("):
        ascend_text.read(str(path))
