import polars as pl
import pytest
from ascend_builder import sample
from ms_profiler.analysis import catalogue
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.writers import parquet
from ms_profiler.store import layout
from store_builder import compiled, write_training


def files(path):
    return {file.stem for file in (path / layout.TABLES).glob("*")}


def test_nothing_is_written_without_a_request(tmp_path):
    path = write_training(tmp_path)
    engine.analyse([path])
    assert not (path / layout.TABLES).exists()


def test_every_table_with_rows_is_written_as_it_is(tmp_path):
    path = compiled(tmp_path).write()
    engine.analyse([path], forms=["parquet"])
    measures = engine.measured(str(path))
    there = {table.name: table.of(measures) for table in catalogue.TABLES}
    assert files(path) == {name for name, table in there.items() if table.height} > {"spans", "kernels", "steps"}
    for name in files(path):
        read = pl.read_parquet(path / layout.TABLES / f"{name}.parquet")
        assert read.equals(there[name]) and read.schema == catalogue.named(name).schema


def test_the_same_run_gives_the_same_bytes(tmp_path):
    path = compiled(tmp_path).write()
    engine.analyse([path], forms=["parquet"])
    first = {file.name: file.read_bytes() for file in (path / layout.TABLES).iterdir()}
    engine.analyse([path], forms=["parquet"])
    assert {file.name: file.read_bytes() for file in (path / layout.TABLES).iterdir()} == first


@pytest.mark.parametrize("forms", [[], ["parquet"]])
def test_an_export_that_is_there_is_renewed(tmp_path, forms):
    path = compiled(tmp_path).write()
    engine.analyse([path], forms=["parquet"])
    engine.analyse([path], forms=forms, step_list=[3, 4])
    assert pl.read_parquet(path / layout.TABLES / "steps.parquet")["step"].to_list() == [3, 4]
    assert "kernels" in files(path)


def test_a_table_that_lost_its_rows_loses_its_file(tmp_path):
    path = compiled(tmp_path).write()
    engine.analyse([path], forms=["parquet"])
    stale = path / layout.TABLES / "memory.parquet"
    stale.write_bytes(b"of an older run")
    engine.analyse([path])
    assert not stale.exists()


def test_results_of_other_profilers_too(tmp_path):
    path = sample(tmp_path).text()
    engine.analyse([path], forms=["parquet"], output=str(tmp_path / "out"))
    tables = tmp_path / "out" / path.name / layout.TABLES
    assert pl.read_parquet(tables / "kernels.parquet").height > 0
    assert not (path / layout.TABLES).exists()


def test_a_table_is_made_once(tmp_path, monkeypatch):
    made = []
    of = catalogue.Table.of
    monkeypatch.setattr(catalogue.Table, "of", lambda table, measures: made.append(table.name) or of(table, measures))
    path = compiled(tmp_path).write()
    engine.analyse([path], forms=["parquet"])
    assert sorted(made) == sorted(table.name for table in catalogue.TABLES)
    assert all(writer.made is None for writer in parquet.WRITERS)
