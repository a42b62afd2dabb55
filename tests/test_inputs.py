import pytest
from ascend_builder import AscendBuilder
from ms_profiler.analysis.driver import inputs
from ms_profiler.analysis.driver.inputs import Kind
from ms_profiler.errors import StoreError
from store_builder import write_training


def test_kinds(tmp_path):
    ours = write_training(tmp_path)
    (ours / "ASCEND_PROFILER_OUTPUT").mkdir(exist_ok=True)
    assert inputs.kind(str(ours)) == Kind.STORE
    theirs = AscendBuilder(tmp_path / "a", "_ascend_ms").text()
    assert inputs.kind(str(theirs)) == Kind.ASCEND
    # results of MindSpore's own profiler have such a folder, too
    (theirs / "FRAMEWORK").mkdir()
    (theirs / "FRAMEWORK" / "cpu_op_execute_timestamp_0.txt").touch()
    assert inputs.kind(str(theirs)) == Kind.ASCEND
    (tmp_path / "some.json").write_text("[]")
    assert inputs.kind(str(tmp_path / "some.json")) == Kind.TRACE
    assert inputs.kind(str(tmp_path)) is None and inputs.kind(str(tmp_path / "none")) is None


def test_recordings_below_a_directory_are_found(tmp_path):
    ours = write_training(tmp_path)
    theirs = [AscendBuilder(tmp_path, suffix).text() for suffix in ("_ascend_ms", "_ascend_pt")]
    (tmp_path / "a.pt.trace.json").write_text("[]")
    assert set(inputs.find([str(tmp_path)])) == {str(path) for path in (ours, *theirs)}
    assert inputs.find([str(theirs[0]), str(theirs[0])]) == [str(theirs[0])]


def test_traces_are_found_where_there_is_no_result(tmp_path):
    for name in ("a.pt.trace.json", "b.pt.trace.json.gz", "other.json"):
        (tmp_path / name).write_text("[]")
    found = inputs.find([str(tmp_path)])
    assert found == [str(tmp_path / "a.pt.trace.json"), str(tmp_path / "b.pt.trace.json.gz")]
    assert inputs.result(found[1]) == str(tmp_path / "b.pt.trace_analysis")
    assert inputs.result(found[0], "out") == "out/a.pt.trace_analysis"


def test_the_place_of_derived_files(tmp_path):
    path = str(AscendBuilder(tmp_path).text())
    assert inputs.result(path) == path
    assert inputs.result(path, "out") == "out/host_4242_20260101000000123_ascend_pt"
    assert inputs.result(f"{path}/", "out") == "out/host_4242_20260101000000123_ascend_pt"


def test_a_path_without_recordings_is_an_error_that_names_raw_data(tmp_path):
    with pytest.raises(StoreError, match=r"holds no recording\."):
        inputs.find([str(tmp_path)])
    raw = tmp_path / "x_1_2_ascend_ms"
    (raw / "PROF_000001_20260101_ABC").mkdir(parents=True)
    with pytest.raises(StoreError, match="only CANN's own tools read its raw data"):
        inputs.find([str(raw)])
    with pytest.raises(StoreError, match="No such file"):
        inputs.find([str(tmp_path / "none")])


def test_results_one_level_deeper_are_named(tmp_path):
    for number in range(5):
        write_training(tmp_path / "runs" / str(number))
    with pytest.raises(StoreError) as raised:
        inputs.find([str(tmp_path / "runs")])
    first, second, third = (tmp_path / "runs" / str(number) for number in range(3))
    assert str(raised.value) == (
        f"{tmp_path}/runs holds no recording itself, but {first} does. "
        f"Name {first} or {second} or {third} or another one."
    )


def test_the_files_of_all_inputs_count_for_their_size(tmp_path):
    result, trace = tmp_path / "result", tmp_path / "trace.json"
    (result / "deep").mkdir(parents=True)
    (result / "deep" / "one").write_bytes(bytes(60))
    trace.write_bytes(bytes(40))
    (result / "gone").symlink_to(tmp_path / "nowhere")
    link = len(str(tmp_path / "nowhere"))  # the size of a link is that of its text
    assert inputs.small([str(result), str(trace)], 100 + link)
    assert not inputs.small([str(result), str(trace)], 99 + link)
