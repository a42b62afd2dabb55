from conftest import ROOT
from ms_profiler.analysis.catalogue import TABLES
from ms_profiler.cli import main, tables


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
