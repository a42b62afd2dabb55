import json

import pytest
from ms_profiler.analysis.model.tables import Form
from ms_profiler.analysis.readers import ascend_run
from ms_profiler.store.reader import ReadCounts


@pytest.mark.parametrize(
    ("name", "file", "form"),
    [
        ("a_1_2_ascend_ms", None, Form.MINDSPORE),
        ("a_1_2_ascend_pt", None, Form.TORCH_NPU),
        ("renamed", "ascend_pytorch_profiler_0.db", Form.TORCH_NPU),
        ("renamed", "ascend_mindspore_profiler_0.db", Form.MINDSPORE),
        ("renamed", None, Form.MINDSPORE),
    ],
)
def test_form(tmp_path, name, file, form):
    output = tmp_path / name / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    if file is not None:
        (output / file).touch()
    assert ascend_run.form(str(tmp_path / name)) == form


def test_rank_device_options_and_groups(tmp_path):
    path = tmp_path / "a_1_2_ascend_ms"
    path.mkdir()
    info = {
        "profiler_parameters": {"profiler_level": "Level1"},
        "ms_profiler_info": {"rank_id": "3", "device_id": "5"},
        "ms_version": "2.6.0",
    }
    (path / "profiler_info_3.json").write_text(json.dumps(info))
    groups = {"parallel_group_info": {"hccl_world": {"global_ranks": list(range(8))}, "x": {"global_ranks": [0, 1]}}}
    (path / "profiler_metadata.json").write_text(json.dumps(groups))
    counts = ReadCounts()
    run = ascend_run.describe(str(path), counts)
    assert (run.rank, run.rank_known, run.device_id, run.world_size) == (3, True, 5, 8)
    assert run.options == {"profiler_level": "Level1"} and not counts.damaged
    assert run.framework == {"name": "mindspore", "version": "2.6.0", "device": "Ascend"}


def test_rank_of_a_renamed_directory(tmp_path):
    path = tmp_path / "rank1_ascend_pt"
    path.mkdir()
    run = ascend_run.describe(str(path), ReadCounts())
    assert (run.rank, run.rank_known, run.world_size) == (1, False, 2)


@pytest.mark.parametrize("content", ["{", "[1]", '{"ms_profiler_info": 3, "profiler_parameters": []}', "\udcff"])
def test_damaged_description_costs_only_itself(tmp_path, content):
    path = tmp_path / "a_1_2_ascend_ms"
    path.mkdir()
    (path / "profiler_info_0.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    counts = ReadCounts()
    run = ascend_run.describe(str(path), counts)
    assert (run.rank, run.options) == (0, {})
    assert bool(counts.damaged_files) == (content in ("{", "\udcff"))
