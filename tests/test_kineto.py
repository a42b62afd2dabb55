import gzip
import json

import pytest
from csv_rows import rows as table
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.driver.inputs import Kind
from ms_profiler.analysis.readers import foreign
from ms_profiler.errors import StoreError


def span(name, category, start, end, tid=11, **args):
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": 4242,
        "tid": tid,
        "ts": start,
        "dur": end - start,
        "args": args,
    }


def on_gpu():
    """Return a trace of two steps of 100 us: computing 10-30, 40-60 and 120-150, communication 50-70, a copy 70-95."""
    events = [span("ProfilerStep#4", "user_annotation", 0, 100), span("ProfilerStep#5", "user_annotation", 100, 200)]
    events += [span("aten::mm", "cpu_op", 4, 9), span("Optimizer.step#SGD.step", "user_annotation", 80, 90)]
    events += [span("python_function", "python_function", 0, 200)]
    rows = [
        ("gemm", 5, 10, 30, 7),
        ("gemm", 20, 40, 60, 7),
        ("ncclDevKernel_AllReduce", 30, 50, 70, 13),
        ("add", 99, 120, 150, 7),
    ]
    for number, (name, launch, start, end, stream) in enumerate(rows):
        events.append(span("cudaLaunchKernel", "cuda_runtime", launch, launch + 1, correlation=number))
        events.append(span(name, "kernel", start, end, tid=stream, stream=stream, correlation=number))
    events.append(span("Memcpy HtoD", "gpu_memcpy", 70, 95, tid=7, stream=7))
    return {
        "baseTimeNanoseconds": 1_700_000_000_000_000_000,
        "distributedInfo": {"rank": 1, "world_size": 2},
        "traceEvents": events,
    }


@pytest.mark.parametrize("rank", [-1, True, None, "1", 1.5, 1 << 63, 10**25])
def test_an_invalid_rank_is_unknown(tmp_path, rank):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({**on_gpu(), "distributedInfo": {"rank": rank, "world_size": rank}}))
    info = engine.measured(str(path)).recording.info
    assert (info.rank, info.rank_known, info.world_size) == (0, False, 1)


@pytest.mark.parametrize("name", ["rank1.pt.trace.json", "rank1.pt.trace.json.gz", "whatever.json"])
def test_steps_of_a_gpu(tmp_path, name):
    content = json.dumps(on_gpu()).encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    (done,) = engine.analyse([path if name == "whatever.json" else tmp_path])
    assert done.warning == "" and done.directory == str(path).removesuffix(".gz").removesuffix(".json") + "_analysis"
    result = tmp_path / done.directory
    first, second = table(result, "step_trace_time.csv")
    # The first step launches "add", so on the device it lasts until the end of "add": 0-150. Its free time is 0-10,
    # 30-40 and 95-120. The second step is the rest, up to its end on the host: 150-200.
    columns = ("Step", "Computing", "Communication", "Overlapped", "Free", "Stage", "Preparing")
    assert [float(first[column]) for column in columns] == [4, 70, 20, 10, 45, 150, 10]
    assert [float(second[column]) for column in columns] == [5, 0, 0, 0, 50, 50, 0]
    operators = {row["OP Type"]: row for row in table(result, "op_statistic.csv")}
    assert operators["gemm"]["Count"] == "2" and operators["gemm"]["Total Time(us)"] == "40.000"
    assert {row["Core Type"] for row in operators.values()} == {"GPU"} and len(operators) == 2
    summary = json.loads((result / "summary.json").read_text())
    assert (summary["rank"], summary["world_size"]) == (1, 2)
    assert summary["device"]["form"] == "kineto" and summary["device"]["streams"] == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, result.name])


@pytest.mark.parametrize("kind", ["cpu_op", "user_annotation"])
def test_operators_compute_where_nothing_ran_on_a_device(tmp_path, kind):
    path = tmp_path / "a.json"
    events = [
        span("ProfilerStep#0", "user_annotation", 0, 100),
        span("aten::linear", "cpu_op", 10, 40),
        span("aten::addmm", "cpu_op", 15, 35),
        span("aten::relu", "cpu_op", 40, 50),
        span("autograd::backward", "cpu_op", 45, 70, tid=12),
        span("gloo:all_reduce", kind, 60, 80, tid=13),
    ]
    path.write_text(json.dumps(events))
    engine.analyse([path])
    (row,) = table(tmp_path / "a_analysis", "step_trace_time.csv")
    # of 100 us, computing is 10-70 and communication 60-80
    columns = ("Computing", "Communication", "Overlapped", "Free")
    assert [float(row[column]) for column in columns] == [60, 20, 10, 30]
    names = [row["Name"] for row in table(tmp_path / "a_analysis", "kernel_details.csv")]
    assert names == ["aten::linear", "aten::relu", "autograd::backward", "gloo:all_reduce"]


SENDRECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


@pytest.mark.parametrize(
    ("call", "operation", "kind", "bubble"),
    [
        ("nccl:all_to_all", None, "all_to_all", 0),
        ("c10d::alltoall_base_", None, "alltoall_base", 0),
        ("nccl:recv 1<-0", None, "recv", 20),
        ("c10d::recv_", None, "recv", 20),
        ("nccl:send 0->1", None, "send", 0),
        ("nccl:coalesced", None, "coalesced", 20),
        ("aten::copy_", "recv", "recv", 20),
        ("nccl:recv 1<-0", "all_to_allv", "all_to_allv", 0),
        ("aten::copy_", None, SENDRECV, 0),
    ],
)
def test_the_hosts_call_names_an_exchange_of_nccl(tmp_path, call, operation, kind, bubble):
    events = [span("ProfilerStep#4", "user_annotation", 0, 100), span(call, "user_annotation", 20, 32)]
    # a call of another thread, and one that ends before the launch
    events += [span("nccl:recv 1<-0", "user_annotation", 25, 35, tid=12), span("nccl:recv", "user_annotation", 22, 24)]
    rows = [("gemm", 5, 10, 30, 7, {}), (SENDRECV, 30, 50, 70, 13, {"Collective name": operation} if operation else {})]
    for number, (name, launch, start, end, stream, args) in enumerate(rows):
        events.append(span("cudaLaunchKernel", "cuda_runtime", launch, launch + 1, correlation=number))
        events.append(span(name, "kernel", start, end, tid=stream, stream=stream, correlation=number, **args))
    path = tmp_path / "a.json"
    path.write_text(json.dumps(events))
    engine.analyse([path])
    (row,) = table(tmp_path / "a_analysis", "step_trace_time.csv")
    assert (float(row["Communication"]), float(row["Bubble"])) == (20, bubble)
    types = {row["Name"]: row["Type"] for row in table(tmp_path / "a_analysis", "kernel_details.csv")}
    assert types == {"gemm": "gemm", SENDRECV: kind}


def test_a_trace_of_nothing(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    path.write_text("[]")
    with pytest.raises(StoreError, match="holds no event"):
        foreign.read(str(path), frozenset())
    monkeypatch.setattr(foreign, "kind", lambda path: Kind.TRACE)  # as if the file had existed a moment ago
    with pytest.raises(StoreError, match="No such file"):
        foreign.read(str(tmp_path / "b.json"), frozenset())


def test_a_long_name_is_cut_in_the_verdict_alone(tmp_path):
    name = "void kernel<" + "at::native::Functor, " * 40 + ">"
    path = tmp_path / "a.json"
    path.write_text(json.dumps([span("ProfilerStep#4", "user_annotation", 0, 100), span(name, "kernel", 0, 90, tid=7)]))
    (done,) = engine.analyse([path])
    assert done.verdict.endswith(f"100 % of the kernel time is {name[:79]}….")
    assert table(tmp_path / "a_analysis", "kernel_details.csv")[0]["Name"] == name


def analysed(folder, content):
    folder.mkdir()
    (folder / "t.pt.trace.json").write_text(json.dumps(content))
    (done,) = engine.analyse([folder / "t.pt.trace.json"])
    with open(f"{done.directory}/summary.json") as stream:
        return json.load(stream)


def test_unfinished_events_are_spans_but_no_steps_or_kernels(tmp_path):
    content = on_gpu()
    whole = analysed(tmp_path / "whole", content)
    open_ends = [
        {"ph": "B", "cat": "cpu_op", "name": "aten::stuck", "pid": 4242, "tid": 11, "ts": 150},
        {"ph": "B", "cat": "user_annotation", "name": "ProfilerStep#6", "pid": 4242, "tid": 11, "ts": 160},
        {"ph": "B", "cat": "kernel", "name": "endless", "pid": 4242, "tid": 7, "ts": 165, "args": {"stream": 7}},
    ]
    content["traceEvents"] += open_ends
    cut = analysed(tmp_path / "cut", content)
    assert cut["steps"]["count"] == whole["steps"]["count"] == 2
    assert cut["completeness"]["unfinished_spans"] == 2
    assert cut["device"]["time"]["total"] == whole["device"]["time"]["total"]
