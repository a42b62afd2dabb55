import json
import os

import pytest
from ascend_builder import sample
from ms_profiler import cli
from ms_profiler.store import layout
from ms_profiler.store.format import Category
from store_builder import MS, StoreBuilder, training

NAMES = [f"host_{rank}_2026010100000{rank}123_ascend_ms" for rank in range(3)]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Return the folder with the results of a job of two ranks, and of a job that started an hour later."""
    parent = tmp_path_factory.mktemp("above") / "data"
    parent.mkdir()
    for rank, name in enumerate(NAMES[:2]):
        training(parent, name=name, rank=rank, world_size=2, job="first", started_wall=1000.0 + rank).write()
    training(parent, steps=10, name=NAMES[2], job="second", started_wall=4600.0).write()
    return parent


@pytest.fixture
def shown(capsys, results):
    def show(*words):
        code = cli.main(["summary", *map(str, words)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return show


def test_several_results_begin_with_an_index_and_are_separated(results, shown):
    code, out, err = shown(results)
    assert (code, err) == (0, "")
    head, *pages = out.split("\n\n1 of 3: ", 1)[0], *out.split(" of 3: ")[1:]
    lines = head.splitlines()
    assert lines[0].split()[:2] == ["result", "rank"] and len(lines) == 4
    for number, (line, name) in enumerate(zip(lines[1:], NAMES, strict=True), 1):
        assert line.startswith(f"{number}. {results / name} ") and line.endswith("30 % of the step waits for data.")
    assert "1 of 2" in lines[2] and " 20 " in lines[2] and " 10 " in lines[3]
    assert len(pages) == 3
    for name, page in zip(NAMES, pages, strict=True):
        first, second = page.splitlines()[:2]
        assert first.startswith(f"{results / name} ──") and second == "30 % of the step waits for data."


def test_one_result_has_neither(results, shown):
    assert shown(results / NAMES[0])[1].startswith("30 % of the step waits for data.\n")


def test_a_result_without_steps_states_no_number_of_steps(results, tmp_path, shown):
    store = StoreBuilder(tmp_path, NAMES[0])
    store.process().thread().instant("last", Category.MARKER, 55_080 * MS)
    path = store.write()
    lines = shown(path, results / NAMES[2])[1].splitlines()
    assert lines[1].endswith(" 55.08 s      -            -  No step was recorded."), lines[1]
    page = "\n".join(lines[3:]).split(" of 2: ")[1]
    assert "no step was marked: the whole run counts as one." in page and "What bounds" not in page
    assert "What bounds" not in shown(path, "--all")[1]


def test_last_is_the_job_that_started_last_with_all_of_its_ranks(results, shown):
    code, out, _ = shown(results, "--last")
    assert code == 0 and out.startswith("30 %") and f"  {results / NAMES[2]}\n" in out
    _, out, _ = shown(results / NAMES[0], results / NAMES[1], "--last")
    assert out.count("waits for data.") == 4  # twice in the index, once on each page


def test_job_is_the_job_of_a_result_with_all_of_its_ranks(results, shown):
    _, both, _ = shown(results)
    assert all(f" of 3: {results / name}" in both for name in NAMES)
    for wanted in (NAMES[1], results / NAMES[0]):
        code, out, _ = shown(results, "--job", wanted)
        assert code == 0 and out.startswith("result ") and NAMES[2] not in out
        assert f"1 of 2: {results / NAMES[0]}" in out and f"2 of 2: {results / NAMES[1]}" in out
    assert f"  {results / NAMES[2]}\n" in shown(results, "--job", NAMES[2])[1]
    code, _, err = shown(results, "--job", "none_ascend_ms")
    assert code == 2 and "There is no result none_ascend_ms." in err


def test_last_among_results_of_other_tools_is_the_one_written_last(tmp_path, shown):
    first, second = (sample(tmp_path / name).text() for name in "ab")
    os.utime(second, (10, 10))
    _, out, _ = shown(first, second, "--last")
    assert f"  {first}\n" in out and str(second) not in out


def test_json_is_the_file_and_an_array_of_several(results, shown):
    code, out, err = shown(results / NAMES[0], "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == json.loads((results / NAMES[0] / layout.SUMMARY).read_text())
    assert [content["directory"] for content in json.loads(shown(results, "--json")[1])] == NAMES


def test_top_is_the_number_of_rows(results, shown):
    def modules(*words):
        _, out, _ = shown(results / NAMES[0], *words)
        return out.partition("\nModules")[2].partition("\n\n")[0].splitlines()[2:]

    assert [row.split()[0] for row in modules("--all")] == ["Dense", "Net", "Momentum", "(in"]
    assert len(modules("--top", "1")) == 2


@pytest.mark.parametrize("word", ["0", "-3", "many"])
def test_top_takes_a_number_from_1_on(results, word):
    with pytest.raises(SystemExit):
        cli.main(["summary", str(results), "--top", word])


def test_an_unreadable_result_hides_no_other(tmp_path, shown):
    whole = sample(tmp_path / "a").text()
    broken = sample(tmp_path / "b").text(table=False)
    (broken / layout.OUTPUT / layout.TRACE_VIEW).write_text("{")
    code, out, err = shown(whole, broken)
    assert code == 2 and out.startswith("60 % of the device's time is idle; ")
    assert err.startswith("ms-profiler: ") and err.count("\n") == 1


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "MS_PROFILER_OPTIONS is not set. Before the job starts: export MS_PROFILER_OPTIONS="),
        ('{"output_path": "x"}', 'Add "start": true to the object.'),
        ('{"start": tru', "Set it like this: export MS_PROFILER_OPTIONS="),
        ('{"start": true, "output_path": "/elsewhere"}', "Look into /elsewhere."),
    ],
)
def test_an_empty_directory_says_why(tmp_path, shown, monkeypatch, value, reason):
    monkeypatch.delenv("MS_PROFILER_OPTIONS", raising=False)
    if value is not None:
        monkeypatch.setenv("MS_PROFILER_OPTIONS", value)
    for directory, text in ((tmp_path, "holds no result"), (tmp_path / "missing", "does not exist")):
        code, out, err = shown(directory)
        assert (code, out) == (2, "")
        assert f"{directory} {text}: no process recorded into it. Run `ms-profiler doctor -- COMMAND`" in err
        assert reason in err


def test_a_directory_above_the_results_names_theirs(results, shown):
    code, _, err = shown(results.parent)
    assert code == 2 and f"Name {results}" in err
