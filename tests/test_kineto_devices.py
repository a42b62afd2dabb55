"""Traces of several vendors and versions give the planted figures, with times in microseconds."""

import itertools
import json

import polars as pl
import pytest
from ms_profiler.analysis import catalogue
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.metrics import critical_path

US = 1000


class Trace:
    """Build a trace of calls of a runtime, and of the work that they launch; times are in us."""

    def __init__(self, runtime="cuda_runtime", prefix="cuda", kernel="kernel", copy="gpu_memcpy", set_="gpu_memset"):
        self.events, self.runtime, self.prefix, self.number = [], runtime, prefix, 0
        self.kinds = {"kernel": kernel, "copy": copy, "set": set_}

    def span(self, name, category, start, end, tid=11, pid=4242, **args):
        event = {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": start, "dur": end - start}
        self.events.append(event | {"args": args})

    def steps(self, *bounds):
        for number, (start, end) in enumerate(itertools.pairwise(bounds)):
            self.span(f"ProfilerStep#{number}", "user_annotation", start, end)

    def call(self, name, start, end, tid=11):
        self.number += 1
        self.span(self.prefix + name, self.runtime, start, end, tid, correlation=self.number)
        return self.number

    def ran(self, name, start, end, number=None, stream=7, device=0, kind="kernel", **args):
        known = {} if number is None else {"correlation": number}
        place = {"device": device, "context": 1, "stream": stream}
        self.span(name, self.kinds[kind], start, end, stream, device, **place, **known, **args)

    def kernel(self, name, launch, start, end, stream=7, device=0, **args):
        self.ran(name, start, end, self.call("LaunchKernel", launch, launch + 1), stream, device, **args)

    def measured(self, folder, chosen=None, **head):
        path = folder / "a.json"
        path.write_text(json.dumps({"traceEvents": self.events, **head}))
        return engine.measured(str(path), chosen)


def shares(measures):
    return {kind: round(share * 100) for kind, share in critical_path.shares(measures.diagnosis.path).items() if share}


def bound(measures):
    return {part: round(share * 100) for part, share in measures.diagnosis.shares.items() if share}


def three(trace):
    """Add three steps of 100 us, each with a kernel of 80 us and a synchronization that waits for its end."""
    trace.steps(0, 100, 200, 300)
    for begin in (0, 100, 200):
        trace.span("aten::mm", "cpu_op", begin + 2, begin + 9)
        trace.kernel("gemm", begin + 5, begin + 10, begin + 90)
        trace.call("DeviceSynchronize", begin + 12, begin + 92)
    return trace


DEVICES = {
    "cuda": (Trace, {}, "GPU"),
    "2021": (Trace, {"runtime": "Runtime", "kernel": "Kernel", "copy": "Memcpy", "set_": "Memset"}, "GPU"),
    "rocm": (Trace, {"prefix": "hip"}, "GPU"),
    "xpu": (Trace, {"runtime": "xpu_runtime", "prefix": "ze"}, "XPU"),
    "mtia": (Trace, {"runtime": "mtia_runtime", "prefix": "mtia", "kernel": "mtia_ccp_events"}, "MTIA"),
    "gaudi": (Trace, {"runtime": "hpu_op", "prefix": "syn"}, "HPU"),
    "other": (Trace, {"runtime": "privateuse1_runtime", "prefix": "my"}, "DEVICE"),
}


@pytest.mark.parametrize("name", DEVICES)
def test_a_device_of_each_age_and_vendor(tmp_path, name):
    make, words, device = DEVICES[name]
    measures = three(make(**words)).measured(tmp_path)
    info = measures.recording.info
    assert info.framework["device"] == device
    assert set(measures.stream.names["core"]) == {device}
    assert not [entry for entry in info.not_collected if "category" in entry["what"]]
    assert measures.stream.times["computing"].to_list() == [80 * US] * 3
    assert measures.stream.moments["idle"].to_list() == [20 * US] * 3
    # Of 300 us: each launch takes 5 us. The host reaches the first launch after 5 us, and needs 8 us after the last
    # wait. Each wait returns 2 us after its kernel's end, and the host needs 13 us from there to the next launch.
    assert shares(measures) == bound(measures) == {"computing": 80, "sync": 11, "launch": 9}
    assert measures.finding.kind == "computing"
    table = measures.recording.device.calls
    assert table["name"].to_list() == [f"{words.get('prefix', 'cuda')}{call}" for call in _CALLS] * 3


_CALLS = ("LaunchKernel", "DeviceSynchronize")


def test_kernels_launched_after_the_steps_are_not_of_the_steps(tmp_path):
    """An evaluation after the last step launches a kernel that takes longer than those of all steps together."""
    trace = Trace()
    trace.steps(0, 100, 200, 300)
    for begin in (0, 100, 200, 400):
        trace.span("nn.Module: Net_0", "python_function", begin + 1, begin + 20)
        trace.span("aten::mm", "cpu_op", begin + 2, begin + 9)
        trace.kernel("gemm" if begin < 300 else "evaluate", begin + 5, begin + 10, begin + (90 if begin < 300 else 900))
    measures = trace.measured(tmp_path)
    assert measures.stream.sums["total_ns"].sum() == (3 * 80 + 890) * US
    assert measures.stream.of_steps["total_ns"].sum() == 3 * 80 * US
    assert measures.verdict.startswith("80 % of the device's time is spent computing; 100 % of the kernel time is gemm")
    whole, steps = (catalogue.named(name).build(measures)["total"].sum() for name in ("modules", "module_steps"))
    assert whole == steps == measures.ownership.whole_ns == 3 * 80 * US


def test_an_unknown_category_is_reported_and_does_not_count(tmp_path):
    trace = three(Trace())
    trace.span("mystery", "npu_thing", 0, 300, 3, 0, stream=3)
    trace.events.append({"ph": "M", "name": "process_labels", "pid": 9, "args": {"labels": "TPU 0"}})
    trace.span("other", "tpu_op", 0, 300, 1, 9)
    trace.span("own", "my_framework", 95, 98)
    measures = trace.measured(tmp_path)
    reported = {entry["what"] for entry in measures.recording.info.not_collected}
    assert {f"1 events of the category {name} on a device" for name in ("npu_thing", "tpu_op")} <= reported
    assert shares(measures) == {"computing": 80, "sync": 11, "launch": 9}
    texts = measures.recording.names.to_list()
    assert "own" in texts and "mystery" not in texts and "other" not in texts


def test_a_device_with_unknown_events_has_no_conclusion(tmp_path):
    trace = Trace()
    trace.steps(0, 100, 200)
    for start in (0, 100, 200):
        trace.span("aten::mm", "cpu_op", start + 5, start + 10)
        trace.span("mystery", "npu_thing", start + 5, start + 98, 3, 0, stream=3)
    measures = trace.measured(tmp_path)
    assert measures.recording.info.framework["device"] == ""
    assert (measures.finding.kind, measures.advice) == ("nothing", [])
    assert measures.finding.sentence.startswith("The work of the device is unknown")
    assert (bound(measures), shares(measures)) == ({}, {})


PARTS = {
    "launched": (lambda event: event["cat"] != "kernel" or event["ts"] > 500, "are not in the trace"),
    "calls": (lambda event: event["cat"] != "cuda_runtime", "the calls that launched its kernels"),
    "durations": (lambda event: event["cat"] != "kernel" or event.pop("dur") > 0, "have no durations"),
    "categories": (lambda event: event.pop("cat") is None or True, "none of its events has a known category"),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_trace_without_a_part_of_its_device_has_no_conclusion(tmp_path, name):
    """Other tools filter, cut and rewrite traces, so a part of the device's events may be missing."""
    trace = Trace()
    trace.steps(*range(0, 1300, 100))
    for begin in range(0, 1200, 100):
        trace.span("aten::mm", "cpu_op", begin + 2, begin + 9)
        trace.kernel("gemm", begin + 5, begin + 10, begin + 30)
    whole = trace.measured(tmp_path)
    assert bound(whole) and whole.recording.device.unread == ""
    keeps, why = PARTS[name]
    trace.events = [event for event in trace.events if keeps(event)]
    measures = trace.measured(tmp_path)
    assert why in measures.finding.sentence and measures.finding.sentence.startswith(
        "The work of the device is unknown"
    )
    assert (bound(measures), shares(measures), measures.advice) == ({}, {}, [])
    reported = " ".join(entry["what"] for entry in measures.recording.info.not_collected)
    assert why in reported or "without a category" in reported


@pytest.mark.parametrize(
    ("length", "sentence"),
    [
        (90, "90 % of the time of the steps is spent computing"),
        (
            10,
            "90 % of the time of the steps passes without an operator; 90 % of the step goes into launching operators.",
        ),
    ],
)
def test_a_trace_of_a_processor_has_no_device(tmp_path, length, sentence):
    trace = Trace()
    trace.steps(0, 100, 200)
    for start in (0, 100, 200):
        trace.span("aten::mm", "cpu_op", start + 5, start + 5 + length)
    measures = trace.measured(tmp_path)
    assert measures.recording.info.framework["device"] == "CPU"
    assert measures.finding.sentence.startswith(sentence)
    assert shares(measures) == bound(measures) and shares(measures)["computing"] == length
    assert "the critical path" not in {entry["what"] for entry in measures.recording.info.not_collected}


def test_two_gpus_with_streams_of_the_same_number(tmp_path):
    trace = Trace()
    trace.steps(0, 100)
    trace.kernel("a", 1, 10, 50, device=0)
    trace.kernel("b", 2, 20, 60, device=1)
    trace.kernel("c", 3, 70, 80, device=1)
    measures = trace.measured(tmp_path)
    device = measures.recording.device
    assert device.tasks["stream"].to_list() == [7, 2**16 + 7, 2**16 + 7]
    assert device.launches["device"].to_list() == [0, 1, 1]
    waits = dict(zip(measures.stream.names["full_name"], measures.stream.table.sort("kernel")["wait_ns"], strict=True))
    # each kernel waits for the kernel before it on its own stream
    assert waits == {"a": 0, "b": 0, "c": 10 * US}


def pageable(trace, kind, returns):
    """Add a step of 100 us: a kernel from 10 to 60, and a copy whose call lasts from 20 to `returns`."""
    trace.steps(0, 100)
    trace.kernel("gemm", 5, 10, 60)
    number = trace.call("MemcpyAsync", 20, returns)
    trace.ran(kind, 62, 64, number, kind="copy", bytes=4096)
    return trace


@pytest.mark.parametrize("prefix", ["cuda", "hip"])
@pytest.mark.parametrize(
    ("kind", "returns", "waits"),
    [
        ("Memcpy DtoH (Device -> Pageable)", 66, True),
        ("Memcpy HtoD (Pageable -> Device)", 63, True),
        ("Memcpy DtoH (Device -> Pinned)", 22, False),
        ("Memcpy DtoH (Device -> Pinned)", 66, True),
        ("Memcpy HtoD (Pageable -> Device)", 22, False),
    ],
)
def test_a_copy_whose_call_comes_back_after_it_blocks(tmp_path, prefix, kind, returns, waits):
    measures = pageable(Trace(prefix=prefix), kind, returns).measured(tmp_path)
    found = shares(measures)
    assert found.get("computing", 0) == (50 if waits else 0)
    assert found.get("copy", 0) == ((min(returns, 64) - 62) if waits else 0)
    # the time of the copy is neither idle nor computing
    (row,) = measures.stream.moments.iter_rows(named=True)
    assert (row["computing"], row["copying"], row["idle"]) == (50 * US, 2 * US, 48 * US)
    assert measures.recording.device.copies["bytes"].to_list() == [4096]


def test_kernels_that_outlive_their_step(tmp_path):
    """The host launches kernels of 90 us in three steps of 30 us and waits for none, so the device is far behind."""
    trace = Trace()
    trace.steps(0, 30, 60, 90)
    for number in range(3):
        trace.kernel("gemm", 30 * number + 5, 10 + 90 * number, 98 + 90 * number)
    whole = trace.measured(tmp_path)
    numbers = whole.steps.table["number"].gather(whole.stream.table["step"]).to_list()
    assert numbers == [0, 1, 2]
    assert whole.stream.moments.select("length", "computing", "idle").rows() == [
        (98 * US, 88 * US, 10 * US),
        (90 * US, 88 * US, 2 * US),
        (90 * US, 88 * US, 2 * US),
    ]
    lengths = whole.diagnosis.path.group_by("step").agg((pl.col("end_ns") - pl.col("start_ns")).sum()).sort("step")
    assert lengths["end_ns"].to_list() == [90 * US] * 2
    assert shares(whole) == {"computing": 98, critical_path.GAP: 2}
    assert bound(whole) == {"computing": 98, critical_path.GAP: 2}
    assert whole.advice == []
    # a selected step alone has the figures that it has among all steps
    alone = trace.measured(tmp_path, [1])
    assert alone.stream.times.drop("step").equals(whole.stream.times.slice(1, 1).drop("step"))
    assert alone.finding.share == pytest.approx(88 / 90)


def test_a_kernel_without_a_launch_is_of_the_step_of_its_neighbours_or_of_none(tmp_path):
    trace = Trace()
    trace.steps(0, 100, 200)
    trace.ran("before", 1, 4)
    trace.kernel("first", 5, 10, 20)
    trace.ran("lost", 20, 25, 99)
    trace.kernel("second", 30, 40, 50)
    trace.ran("between", 60, 65)
    trace.kernel("third", 105, 110, 120)
    trace.ran("after", 130, 140)
    measures = trace.measured(tmp_path)
    steps = dict(zip(measures.recording.device.tasks["name"], measures.stream.owned, strict=True))
    assert steps == {
        "before": None,
        "first": 0,
        "lost": 0,
        "second": 0,
        "between": None,
        "third": 1,
        "after": None,
    }


def test_an_arrow_leads_from_a_call_to_a_kernel_without_a_number(tmp_path):
    trace = Trace()
    trace.steps(0, 100, 200)
    trace.span("cudaLaunchKernel", "cuda_runtime", 90, 95)
    trace.ran("late", 120, 150)
    for end, tid, pid, time in (("s", 11, 4242, 90), ("f", 7, 0, 120)):
        trace.events.append({"ph": end, "cat": "ac2g", "name": "ac2g", "id": 5, "pid": pid, "tid": tid, "ts": time})
    measures = trace.measured(tmp_path)
    assert measures.stream.owned.to_list() == [0]
    assert measures.stream.moments["length"].to_list() == [150 * US, 50 * US]


def test_a_stream_that_waits_for_another_has_its_kernel_on_the_path(tmp_path):
    """The second kernel waits for an exchange on another stream, long after the kernel before it on its own stream."""
    trace = Trace()
    trace.steps(0, 100)
    trace.kernel("forward", 2, 10, 20)
    trace.kernel("ncclDevKernel_AllReduce", 3, 15, 70, stream=20)
    trace.kernel("update", 4, 71, 90)
    trace.call("StreamSynchronize", 10, 92)
    found = shares(trace.measured(tmp_path))
    assert (found["communication"], found["computing"]) == (55, 19)


def test_a_host_that_is_elsewhere_is_not_the_device_s_fault(tmp_path):
    trace = Trace()
    trace.steps(0, 30_000, 60_000)
    for begin in (0, 30_000):
        trace.kernel("gemm", begin + 20_000, begin + 20_010, begin + 29_000)
        trace.call("DeviceSynchronize", begin + 20_020, begin + 29_001)
    measures = trace.measured(tmp_path)
    # The 1 ms after the wait is short enough to count as launching. The 20 ms before the launch are too long for that.
    assert shares(measures)["host"] == bound(measures)["host"] == 67
    assert [item.what for item in measures.advice] == ["host"]


def test_data_bound_steps_of_a_device(tmp_path):
    trace = Trace()
    trace.steps(0, 100_000, 200_000)
    for begin in (0, 100_000):
        loading = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
        trace.span(loading, "user_annotation", begin + 100, begin + 70_000)
        trace.kernel("gemm", begin + 70_010, begin + 70_020, begin + 99_000)
    measures = trace.measured(tmp_path)
    assert bound(measures)["data"] == 70
    assert [item.what for item in measures.advice] == ["data"]


def test_modules_operators_and_marks_are_read(tmp_path):
    trace = Trace()
    trace.steps(0, 100)
    trace.span("train.py(3): main", "python_function", 0, 99)
    trace.span("nn.Module: Linear_0", "python_function", 1, 40)
    trace.span("aten::addmm", "cpu_op", 2, 30)
    trace.kernel("gemm", 5, 10, 20)
    trace.span("backward", "gpu_user_annotation", 10, 20, 7, 0, stream=7)
    measures = trace.measured(tmp_path)
    (kernel,) = measures.stream.table.iter_rows(named=True)
    names, spans = measures.recording.names, measures.recording.spans
    assert measures.stream.texts[kernel["module"]] == "Linear_0"
    assert names[spans["name"][kernel["launch"]]] == "aten::addmm"
    assert measures.recording.device.marks.select("name", "start_ns").rows() == [("backward", 10 * US)]


def test_bytes_are_absent_where_the_type_of_elements_is_not_known(tmp_path):
    trace = Trace()
    trace.steps(0, 100)
    reported = {
        "Collective name": "allreduce",
        "Group size": 4,
        "Process Group Name": "2",
        "Process Group Ranks": "[0, 1]",
    }
    for number, dtype in enumerate(("BFloat16", "Float9")):
        start = 10 + 20 * number
        more = {"In msg nelems": 1000, "dtype": dtype}
        trace.kernel("ncclDevKernel_AllReduce", start - 5, start, start + 10, **reported, **more)
    measures = trace.measured(tmp_path)
    assert measures.recording.device.launches["bytes"].to_list() == [2000, None]
    columns = ("operation", "group", "ranks", "size", "dtype", "bytes")
    assert measures.calls.select(columns).rows() == [
        ("allreduce", "2", "[0, 1]", 4, "BFloat16", 2000),
        ("allreduce", "2", "[0, 1]", 4, "Float9", 0),
    ]


def test_statistics_of_launches_pauses_queues_and_copies(tmp_path):
    trace = Trace()
    trace.steps(0, 1000)
    trace.span("aten::mm", "cpu_op", 0, 15)
    trace.kernel("a", 1, 10, 100)
    trace.kernel("b", 5, 110, 200)
    trace.span("aten::add", "cpu_op", 300, 320)
    trace.kernel("c", 305, 310, 320)
    trace.kernel("d", 311, 400, 500)
    number = trace.call("MemcpyAsync", 312, 314)
    trace.ran("Memcpy HtoD (Pinned -> Device)", 450, 460, number, stream=9, kind="copy", bytes=20_000)
    measures = trace.measured(tmp_path)

    def ask(name, *columns):
        return catalogue.named(name).of(measures).select(columns).rows()

    assert ask("launches", "name", "kind", "call", "called", "delay", "step")[:2] == [
        ("a", "computation", "cudaLaunchKernel", US, 8 * US, 0),
        ("b", "computation", "cudaLaunchKernel", US, 104 * US, 0),
    ]
    assert sorted(ask("idle", "cause", "dur")) == [
        ("host wait", 110 * US),
        ("kernel wait", 10 * US),
        ("other", 80 * US),
    ]
    assert [row[1] for row in ask("queue", "stream", "length") if row[0] == 7] == [1, 2, 1, 0, 1, 0, 1, 0]
    assert ask("device_kinds", "kinds", "total") == [
        ("computation", 280 * US),
        ("computation + memory", 10 * US),
    ]
    assert ask("copy_sums", "name", "count", "bytes", "bandwidth") == [
        ("Memcpy HtoD (Pinned -> Device)", 1, 20_000, 2.0)
    ]
    assert ask("sequences", "operator", "kernels", "length", "count", "total") == [
        ("aten::mm", "a\nb", 2, 1, 180 * US),
        ("aten::add", "c\nd", 2, 1, 110 * US),
    ]


def copying(trace, beside):
    """Add three steps of 100 us: a copy of 40 us from pageable memory, and a kernel of 50 us after or beside it."""
    trace.steps(0, 100, 200, 300)
    for begin in (0, 100, 200):
        number = trace.call("MemcpyAsync", begin + 2, begin + (3 if beside else 45))
        trace.ran("Memcpy HtoD (Pageable -> Device)", begin + 4, begin + 44, number, 20, kind="copy", bytes=4 << 20)
        start = begin + (4 if beside else 46)
        trace.kernel("gemm", start - 1, start, start + 50)
        trace.call("DeviceSynchronize", start + 1, start + 50)
    return trace


def test_a_device_that_waits_for_copies_is_copy_bound(tmp_path):
    measures = copying(Trace(), beside=False).measured(tmp_path)
    (advice,) = measures.advice
    assert (advice.cause, advice.what, advice.lane) == ("copy-bound", "copy", "stream 20")
    assert advice.share == pytest.approx(0.4)
    assert "1.0 copies a step of 4.0 MiB, at 97.7 GiB/s; 100.0 % of their time" in advice.evidence
    assert "pageable" in advice.evidence and "pin_memory=True" in advice.action and "non_blocking" in advice.action


def test_copies_beside_computing_are_no_advice(tmp_path):
    found = copying(Trace(), beside=True).measured(tmp_path).advice
    assert [item for item in found if item.cause == "copy-bound"] == []


def test_while_another_stream_computes_there_is_no_gap_on_the_path(tmp_path):
    """An exchange is queued at 5 and begins at 36, while another stream's kernels follow each other without a pause."""
    trace = Trace()
    trace.steps(0, 100)
    for number, start in enumerate((10, 20, 30, 40)):
        trace.kernel("gemm", 1 + number, start, start + 10)
    trace.kernel("ncclDevKernel_AllReduce", 5, 36, 90, stream=20)
    trace.call("DeviceSynchronize", 8, 91)
    measures = trace.measured(tmp_path)
    assert shares(measures)["computing"] == 26 and critical_path.GAP not in shares(measures)
    assert critical_path.GAP not in bound(measures)


def test_of_kernels_that_exchange_the_finding_does_not_speak(tmp_path):
    trace = Trace()
    trace.steps(0, 100)
    trace.kernel("gemm", 1, 10, 60)
    trace.kernel("ncclDevKernel_AllReduce", 5, 30, 90, stream=20)
    trace.call("DeviceSynchronize", 8, 91)
    sentence = trace.measured(tmp_path).finding.sentence
    assert sentence == "50 % of the device's time is spent computing; 100 % of the computing kernels' time is gemm."


@pytest.mark.parametrize(
    ("spans", "named"),
    [
        ([("train.py(9): train", "python_function", 1, 99), ("sleep", "python_function", 42, 92)], "in sleep (8"),
        ([("aten::histc", "cpu_op", 45, 95)], "in aten::histc (8"),
        # no operator takes most of the time
        ([("aten::histc", "cpu_op", 45, 50), ("aten::topk", "cpu_op", 60, 70)], ""),
    ],
)
def test_the_span_that_the_host_is_in_is_named(tmp_path, spans, named):
    """In steps of 100 ms, the host waits for a kernel of 40 ms, and then runs other code."""
    ms, trace = 1000, Trace()
    trace.steps(0, 100 * ms, 200 * ms, 300 * ms)
    for begin in (0, 100, 200):
        trace.kernel("gemm", begin * ms + 100, begin * ms + 200, (begin + 40) * ms)
        trace.call("DeviceSynchronize", begin * ms + 300, (begin + 40) * ms)
        for name, category, start, end in spans:
            trace.span(name, category, (begin + start) * ms, (begin + end) * ms)
    (advice,) = trace.measured(tmp_path).advice
    assert advice.cause == "host-bound"
    assert (f", mostly {named}" in advice.evidence) if named else ("mostly" not in advice.evidence)
