import csv
import json
import sqlite3
from contextlib import closing

from ascend_builder import exchanging, sample
from conftest import ROOT
from ms_profiler.analysis.catalogue import TABLES
from ms_profiler.analysis.catalogue.database_files import DATABASE_FILES
from ms_profiler.analysis.catalogue.file_list import FILES
from ms_profiler.analysis.catalogue.json_files import LINK_KEYS, TIME_KEYS
from ms_profiler.analysis.driver import engine
from ms_profiler.cli import main, tables
from ms_profiler.store import layout
from store_builder import compiled, training, write_training


def test_the_document_is_current():
    """`ms-profiler tables --write docs/tables.md` writes the document."""
    document = (ROOT / "docs" / "tables.md").read_text()
    assert tables.MARKS.rewritten(document, tables.markdown()) == document


def test_the_list_names_every_table_and_column(capsys):
    assert main(["tables"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines if not line.startswith(" ")] == [table.name for table in TABLES]
    listed = [line.split()[:2] for line in lines if line.startswith(" ")]
    assert listed == [[column.name, str(column.kind)] for table in TABLES for column in table.columns]


def test_a_document_gets_the_tables(tmp_path):
    document = tmp_path / "tables.md"
    document.write_text(f"before\n{tables.MARKS.begin}\n{tables.MARKS.end}\nafter\n")
    assert main(["tables", "--write", str(document)]) == 0
    assert document.read_text().count("### ") == len(TABLES)
    assert document.read_text().endswith(f"{tables.MARKS.end}\nafter\n")


def test_the_document_of_files_is_current():
    """`ms-profiler tables --files --write docs/files.md` writes the document."""
    document = (ROOT / "docs" / "files.md").read_text()
    assert tables.FILE_MARKS.rewritten(document, tables.file_markdown()) == document


def test_the_list_of_files_names_every_column(capsys):
    assert main(["tables", "--files"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines if not line.startswith(" ")] == [file.name for file in FILES]
    columns = [name for file in FILES for name in file.columns]
    assert [line[4:].partition("  ")[0] for line in lines if line.startswith(" ")] == columns


def test_every_column_that_is_written_is_documented(tmp_path):
    """The written results have host spans, kernels of a graph, memory and shapes. One result is another tool's."""
    stores = [training(tmp_path, name="a_ascend_ms"), compiled(tmp_path, name="b_ascend_ms")]
    results = [store.write() for store in stores]
    made = sample(tmp_path / "c")
    made.hold(5, 100)
    results.append(made.text())
    engine.analyse(results)
    known = {file.name: list(file.columns) for file in FILES}
    seen = set()
    for path in (file for result in results for file in (result / layout.OUTPUT).glob("*.csv")):
        with path.open(newline="") as stream:
            header = next(csv.reader(stream))
        if path.name in {layout.KERNEL_DETAILS} and path.parents[1] == results[-1]:
            continue  # the other tool wrote this file
        assert header == [name for name in known[path.name] if name in header], path
        seen.add(path.name)
    assert len(seen) >= 5


def keys_of(value, depth):
    """Return the keys of the dictionaries that lie `depth` levels inside a value."""
    if depth == 0:
        return set(value)
    return {key for inner in value.values() for key in keys_of(inner, depth - 1)} if isinstance(value, dict) else set()


def test_every_key_that_is_written_is_documented(tmp_path):
    """The written results have exchanges, several ranks and databases."""
    result = exchanging(tmp_path, "_ascend_pt").text()
    rank = write_training(tmp_path, name="b_ascend_ms", world_size=2)
    engine.analyse([result, rank], forms=("db",))
    known = {file.name: set(file.columns) for file in FILES}
    output = result / layout.OUTPUT
    content = json.loads((output / layout.COMMUNICATION).read_text())
    entries = [entry for kinds in content.values() for kind in kinds.values() for entry in kind.values()]
    assert entries
    for entry in entries:
        times, links = entry.values()
        assert set(times) <= set(TIME_KEYS)
        assert keys_of(links, 1) <= set(LINK_KEYS)
    matrix = json.loads((output / layout.COMMUNICATION_MATRIX).read_text())
    assert keys_of(matrix, 4) == known[layout.COMMUNICATION_MATRIX]
    for name in (layout.METADATA, layout.RANK):
        assert set(json.loads((rank / name).read_text())) <= known[name]
    assert set(json.loads((rank / layout.RANK).read_text())) == known[layout.RANK]
    assert set(json.loads((rank / "profiler_info_0.json").read_text())) == known["profiler_info_{rank}.json"]
    tables = {file.name.partition(", ")[2]: list(file.columns) for file in DATABASE_FILES}
    databases = [*output.glob("*.db"), *(rank / layout.OUTPUT).glob("*.db")]
    assert len(databases) == 4
    for path in databases:
        with closing(sqlite3.connect(path)) as connection:
            for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
                assert columns == [name for name in tables[table] if name in columns], table
