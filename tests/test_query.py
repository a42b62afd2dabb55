import pytest
from ms_profiler.analysis.catalogue import query
from ms_profiler.analysis.streams import kernel_stream
from ms_profiler.errors import StoreError, UsageError
from ms_profiler.store.format import Category
from store_builder import MS, StoreBuilder, compiled, write_training


def named(rank):
    return f"host_{rank}_20260101000000123_ascend_ms"


def test_sums_by_name(tmp_path):
    path = str(write_training(tmp_path))
    answer = query.ask(
        [path], "select name, count(*) as n, sum(dur) as total from spans where category = 'data' group by name"
    )
    assert answer.table.rows(named=True) == [{"name": "next", "n": 20, "total": 60 * MS}]
    assert answer.notes == []


def test_rows_of_several_runs_have_their_directory_and_rank(tmp_path):
    for rank in range(2):
        write_training(tmp_path, name=named(rank), rank=rank, steps=2 + rank)
    expected = [(named(0), 0, 2), (named(1), 1, 3)]
    text = "select directory, rank, count(*) as n from steps group by directory, rank order by rank"
    assert query.ask([str(tmp_path)], text).table.rows() == expected
    assert query.ask([str(tmp_path / name) for name, _, _ in expected], text).table.rows() == expected


def test_tables_are_joined(tmp_path):
    path = str(compiled(tmp_path, steps=2, windows=1).write())
    text = (
        "select s.step, count(*) as n, sum(k.dur) as busy from steps s join kernels k on s.step = k.step "
        "group by s.step order by s.step"
    )
    assert query.ask([path], text).table.rows() == [(0, 3, 5_500_000), (1, 3, 5_500_000)]


def test_an_unknown_table_is_named_with_those_there_are(tmp_path):
    with pytest.raises(UsageError, match=r"^There is no table kernel\. There are spans, kernels, .*kernel_sums\.$"):
        query.ask([str(write_training(tmp_path))], "select * from kernel")


@pytest.mark.parametrize("column", ["durr", "s.durr", "sum(durr)"])
def test_an_unknown_column_is_named_with_those_there_are(tmp_path, column):
    with pytest.raises(UsageError, match=r"^There is no column durr\. spans has directory, rank, id, name, .*\.$"):
        query.ask([str(write_training(tmp_path))], f"select {column} from spans s")


@pytest.mark.parametrize("text", ["selec", "", "select no_such(dur) from spans", "select 1; select 2"])
def test_an_invalid_query_is_one_line(tmp_path, text):
    with pytest.raises(UsageError, match=r"^The query cannot be run: .*`ms-profiler tables`\.$") as raised:
        query.ask([str(write_training(tmp_path))], text)
    assert "\n" not in str(raised.value)


def test_a_directory_without_anything(tmp_path):
    with pytest.raises(StoreError, match="holds no recording"):
        query.ask([str(tmp_path)], "select * from spans")


def test_an_empty_table_is_reported(tmp_path):
    path = str(write_training(tmp_path))
    answer = query.ask([path], "select count(*) as n from memory")
    assert answer.table.rows() == [(0,)]
    (note,) = answer.notes
    assert note.startswith(f"memory is empty in {path}")


def test_operators_of_a_processor_are_no_kernels_and_the_note_says_where_they_are(tmp_path):
    store = StoreBuilder(tmp_path, framework={"name": "torch", "device": "CPU"})
    process = store.process()
    thread = process.thread()
    thread.span("aten::mm", Category.OP, MS, 2 * MS)
    thread.step(0, 0, 3 * MS)
    process.anchor(4 * MS)
    (note,) = query.ask([str(store.write())], "select count(*) as n from kernels").notes
    assert "rows of spans with category 'op', and of kernel_details.csv" in note


def test_tables_can_be_listed(tmp_path):
    found = query.ask([str(write_training(tmp_path))], "show tables").table
    assert set(found.to_series()) == {table.name for table in query.catalogue.TABLES}


def test_rows_left_out_of_a_long_run_are_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_stream, "MOST", 6)
    path = str(compiled(tmp_path, steps=20).write())
    answer = query.ask([path], "select count(*) as n from kernels")
    ((kept,),) = answer.table.rows()
    assert kept < 60
    assert answer.notes == [
        f"kernels holds {kept} of 60 in {path}, those of the first, the slowest, the last and some other steps; "
        "sums over all are in kernel_sums."
    ]
    assert query.ask([path], "select sum(count) as n from kernel_sums").table.rows() == [(60,)]
