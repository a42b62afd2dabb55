import csv

from ascend_builder import sample
from conftest import ROOT
from ms_profiler.analysis.catalogue import TABLES
from ms_profiler.analysis.catalogue.csv_files import FILES
from ms_profiler.analysis.driver import engine
from ms_profiler.cli import main, tables
from ms_profiler.store import layout
from store_builder import compiled, training


def test_the_document_is_current():
    """`ms-profiler tables --write docs/tables.md` writes it."""
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
    """`ms-profiler tables --files --write docs/files.md` writes it."""
    document = (ROOT / "docs" / "files.md").read_text()
    assert tables.FILE_MARKS.rewritten(document, tables.file_markdown()) == document


def test_the_list_of_files_names_every_column(capsys):
    assert main(["tables", "--files"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines if not line.startswith(" ")] == [file.name for file in FILES]
    columns = [name for file in FILES for name in file.columns]
    assert [line[4:].partition("  ")[0] for line in lines if line.startswith(" ")] == columns


def test_every_column_that_is_written_is_documented(tmp_path):
    """The written results have host spans, kernels of a graph, memory and shapes, and one is another tool's."""
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
            continue  # the other tool's own
        assert header == [name for name in known[path.name] if name in header], path
        seen.add(path.name)
    assert len(seen) >= 5
