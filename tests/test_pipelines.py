"""From the files of MindSpore's dataset profiler follows the right finding about a pipeline."""

import csv
import json
from pathlib import Path

import pytest
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.metrics import pipeline_hints
from ms_profiler.analysis.metrics.pipelines import Pipeline, label
from ms_profiler.analysis.readers.pipeline_samples import Operator
from ms_profiler.store import layout
from ms_profiler.store.format import Category
from store_builder import MS, StoreBuilder, folder_of

SECOND = 1000 * MS
#: keys of the summary, in MindSpore's order
KEYS = [
    "op_ids",
    "op_names",
    "pipeline_ops",
    "num_workers",
    "queue_average_size",
    "queue_utilization_pct",
    "queue_empty_freq_pct",
    "children_ids",
    "parent_id",
    "avg_cpu_pct",
    "per_pipeline_time",
    "per_push_queue_time",
    "per_batch_time",
    "avg_cpu_pct_per_worker",
]


def operator(number, kind, sizes=None, children=(), workers=2, percents=()):
    return Operator(number, kind, workers, tuple(children), None if sizes is None else 16, sizes or [], list(percents))


def pipeline(*operators):
    return Pipeline(1, 0, 1000, list(operators))


def files(sizes, *, cpu=None, batches=(), interval=1000):
    """Return {name: content} of MindSpore's files about a pipeline Batch <- Map <- Generator.

    Args:
        sizes: for each operator, the length of its output queue at each sample.
        cpu: for each operator, its processor use in percent at each sample.
        batches: (number, ms, ms) of each batch.
        interval: ms between two samples.
    """
    kinds = ["BatchOp", "MapOp", "GeneratorOp"]
    info = []
    for number, (kind, held) in enumerate(zip(kinds, sizes, strict=True)):
        item = {"op_id": number, "op_type": kind, "num_workers": 2}
        item["metrics"] = {"output_queue": {"length": 16, "size": held}}
        info.append(item | ({"children": [number + 1]} if number < 2 else {}))
    cpu = cpu or [[0] * len(held) for held in sizes]
    processors = [
        {"op_id": number, "metrics": {"sys_utilization": [0] * len(used), "user_utilization": used}}
        for number, used in enumerate(cpu)
    ]
    lines = []
    for number, wait, time in batches:
        lines += [f"0 1 {number} 0 {time}", f"0 2 {number} {wait} {time}", f"0 0 {number} {wait} {time}"]
        lines += [f"1 16 {number} 3 {time}"]
    return {
        "pipeline_profiling_0.json": json.dumps({"op_info": info, "sampling_interval": interval}),
        "minddata_cpu_utilization_0.json": json.dumps({"cpu_processor_num": 2, "op_info": processors}),
        "dataset_iterator_profiling_0.txt": "".join(f"{line}\n" for line in lines),
    }


class Watched:
    """Write a run with windows of pipelines."""

    def __init__(self, parent):
        self.store = StoreBuilder(parent)
        self.process = self.store.process()
        self.thread = self.process.thread()
        self.thread.span("forward", Category.FORWARD, 0, SECOND)
        self.windows = 0
        self.written = []

    def window(self, number, start, end, content):
        arg = number << 32 | self.windows
        self.thread.instant("dataset window", Category.PROFILER, start, arg)
        if end is not None:
            self.thread.instant("dataset window end", Category.PROFILER, end, arg)
        self.written.append((self.windows, content))
        self.windows += 1
        return self

    def analysed(self):
        self.process.anchor(SECOND)
        path = self.store.write()
        for index, content in self.written:
            folder = Path(layout.pipeline_dir(layout.process_dir(str(path), 4242), index))
            for name, text in (content or {}).items():
                folder.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(text)
        engine.analyse([path])
        return path, json.loads((path / "summary.json").read_text())


def rows(path, name):
    with open(folder_of(path) / name, newline="") as stream:
        return list(csv.reader(stream))


def test_the_operator_between_a_full_and_an_empty_queue_is_slow():
    slow = operator(1, "MapOp", [0, 0, 1, 0], [2], percents=[150, 170])
    found = pipeline(
        operator(0, "BatchOp", [0, 0, 0, 0], [1]), slow, operator(2, "GeneratorOp", [0, 16, 16, 16])
    ).slowest()
    assert found.slow is slow and (found.before, found.behind) == (75.0, 1.56)
    assert "its input queue is 75 % full, its output queue is 1.56 % full" in found.evidence
    assert "more workers than 2" in found.action


@pytest.mark.parametrize(
    ("percents", "workers", "said"),
    [([1, 2], 1, "mostly wait"), ([90, 95], 1, "more workers than 1"), ([95, 105], 4, "python_multiprocessing")],
)
def test_the_advice_on_a_slow_source_depends_on_its_workers(percents, workers, said):
    source = operator(1, "GeneratorOp", [0, 0, 0], workers=workers, percents=percents)
    found = pipeline(operator(0, "BatchOp", [0, 0, 0], [1]), source).slowest()
    assert found.slow is source and found.before is None
    assert said in found.action


def test_a_full_last_queue_acquits_the_pipeline():
    found = pipeline(operator(0, "BatchOp", [8, 16, 16], [1]), operator(1, "GeneratorOp", [16, 16, 16])).slowest()
    assert found.slow is None and "Batch(id=0) is 83.31 % full" in found.evidence


def test_inputs_skip_operators_without_a_queue():
    shown = pipeline(
        operator(0, "EpochCtrlOp", None, [1]),
        operator(1, "BatchOp", [0, 0, 0], [2]),
        operator(2, "ZipOp", None, [3, 4]),
        operator(3, "MapOp", [16, 16, 16]),
        operator(4, "MapOp", [1, 0, 0]),
    )
    assert [item.op_id for item in shown.inputs(shown.operators[1])] == [3, 4]
    assert shown.slowest().slow.op_id == 4


def test_inputs_that_are_read_in_turn_have_no_slowest():
    shown = pipeline(
        operator(0, "BatchOp", [0, 0, 0], [1]),
        operator(1, "ConcatOp", None, [2, 3]),
        operator(2, "MapOp", [16, 16, 16]),
        operator(3, "MapOp", [0, 0, 0]),
    )
    assert shown.slowest() is None


@pytest.mark.parametrize("sizes", [[], [0, 0]])
def test_too_few_samples_have_no_slowest(sizes):
    assert pipeline(operator(0, "BatchOp", sizes, [1]), operator(1, "GeneratorOp", sizes)).slowest() is None


def test_remarks_follow_the_thresholds():
    shown = pipeline(
        operator(0, "DataQueueOp", None, [1], percents=[0]),
        operator(1, "BatchOp", [0, 0, 9], [2], percents=[10]),
        operator(2, "MapOp", [0, 0, 0], [3], percents=[160]),
        operator(3, "ShuffleOp", [16, 16, 16], [4], percents=[1]),
        operator(4, "GeneratorOp", [8, 8, 8], workers=1, percents=[76]),
    )
    assert [line.split()[0] for line in pipeline_hints.processors(shown)] == [
        "DataQueue(id=0)",
        "Batch(id=1)",
        "Map(id=2)",
        "Generator(id=4)",
    ]
    starved, behind, source = pipeline_hints.queues(shown)
    assert "DataQueue(id=0) is empty in 66.67% of the samples" in starved
    assert "Map(id=2) is 100.0% full" in behind
    assert "Generator(id=4) is 50.0% full" in source
    assert not pipeline_hints.processors(pipeline(operator(0, "MapOp", [1])))  # without measurements there is no hint


def test_windows_of_a_pipeline_are_taken_together(tmp_path):
    first = files(
        [[0, 0], [0, 0], [16, 16]],
        cpu=[[0, 1], [0, 90], [0, 2]],
        batches=[(1, 500, 1000), (2, 30, 1040), (3, 31, 1080)],
    )
    second = files([[0], [0], [13]], cpu=[[0], [0], [0]], batches=[(70, 20, 5000), (71, 40, 5070)])
    path, summary = (
        Watched(tmp_path)
        .window(0, 0, 200 * MS, first)
        .window(1, 200 * MS, 300 * MS, files([[16], [16], [16]]))
        .window(0, 300 * MS, 400 * MS, second)
        .analysed()
    )
    slow, other = summary["dataset_pipelines"]
    assert (slow["number"], slow["windows"], slow["samples"], slow["observed_s"]) == (0, 2, 3, 0.3)
    assert (slow["batches"], slow["wait_ms"], slow["period_ms"]) == (4, 30.25, 50.0)
    assert slow["bottleneck"]["operator"] == "Map(id=1)"
    assert (other["number"], other["bottleneck"]) == (1, None)
    assert summary["sources"]["dataset_pipelines"] == "MindSpore's dataset profiler"
    assert rows(path, "minddata_pipeline_raw_0.csv")[1:] == [
        ["0", "BatchOp", "2", "[0, 0, 0]", "0.0", "16", "0.0", "1000", "", "[1]"],
        ["1", "MapOp", "2", "[0, 0, 0]", "0.0", "16", "0.0", "1000", "0", "[2]"],
        ["2", "GeneratorOp", "2", "[16, 16, 13]", "15.0", "16", "0.9375", "1000", "1", ""],
    ]
    table = {key: values for key, *values in rows(path, "minddata_pipeline_summary_0.csv")}
    assert list(table)[:14] == KEYS
    assert table["queue_utilization_pct"] == ["0.0", "0.0", "93.75"]
    assert table["avg_cpu_pct"] == ["1.0", "90.0", "2.0"]
    assert (table["per_pipeline_time"], table["per_batch_time"]) == (["30.25"], ["50.0"])
    assert table["bottleneck_warning"] == ["Map(id=1)"]
    content = json.loads((folder_of(path) / "minddata_pipeline_summary_0.json").read_text())
    assert {key: [str(value) for value in values] for key, values in content.items()} == table


def test_unknown_values_are_minus_one(tmp_path):
    path, summary = Watched(tmp_path).window(0, 0, MS, files([[], [], []])).analysed()
    content = json.loads((folder_of(path) / "minddata_pipeline_summary_0.json").read_text())
    assert content["queue_utilization_pct"] == content["avg_cpu_pct"] == [-1, -1, -1]
    assert content["per_batch_time"] == [-1]
    assert "bottleneck_warning" not in content
    assert summary["dataset_pipelines"][0]["wait_ms"] is None


def test_a_killed_run_names_its_lost_window(tmp_path):
    path, summary = Watched(tmp_path).window(0, 100 * MS, None, None).analysed()
    assert not (folder_of(path) / "minddata_pipeline_raw_0.csv").exists()
    (lost,) = summary["completeness"]["lost_windows"]
    assert "before MindSpore wrote them" in lost["what"] and (lost["from_s"], lost["to_s"]) == (0.1, 1.0)
    assert summary["dataset_pipelines"] == [] and "dataset_pipelines" not in summary["sources"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1]",
        '{"op_info": 3}',
        '{"op_info": [{"op_id": 0, "op_type": "MapOp", "children": [0]}]}',
        '{"op_info": [{}]}',
    ],
)
def test_a_damaged_file_costs_its_window(tmp_path, text):
    _, summary = (
        Watched(tmp_path)
        .window(0, 0, MS, files([[1], [1], [1]]) | {"pipeline_profiling_0.json": text})
        .window(0, MS, 2 * MS, files([[1], [1], [1]]))
        .analysed()
    )
    (lost,) = summary["completeness"]["lost_windows"]
    assert "cannot be read" in lost["what"]
    (damaged,) = summary["completeness"]["damaged_files"]
    assert damaged["file"] == "process_4242/pipelines/000000/pipeline_profiling_0.json"
    assert summary["dataset_pipelines"][0]["windows"] == 1


def test_a_damaged_part_costs_only_itself(tmp_path):
    content = files([[1], [1], [1]]) | {
        "minddata_cpu_utilization_0.json": "{",
        "dataset_iterator_profiling_0.txt": "0 7",
    }
    _, summary = Watched(tmp_path).window(0, 0, MS, content).analysed()
    assert len(summary["completeness"]["damaged_files"]) == 2
    (only,) = summary["dataset_pipelines"]
    assert only["samples"] == 1 and only["wait_ms"] is None and only["operators"][0]["cpu_percent"] is None


def test_a_device_queue_gives_whole_times_of_a_batch(tmp_path):
    content = files([[1], [1], [1]], batches=[(1, 9, 10), (2, 5, 30), (3, 7, 60)])
    content["device_queue_profiling_0.txt"] = content.pop("dataset_iterator_profiling_0.txt")
    _, summary = Watched(tmp_path).window(0, 0, MS, content).analysed()
    assert summary["dataset_pipelines"][0]["period_ms"] == 6.0


def test_labels():
    assert label(operator(3, "MapOp")) == "Map(id=3)"
