"""`ms-profiler options` prints the list of options, and writes their table into a document."""

import argparse

import pytest
from ms_profiler.cli import options as command
from ms_profiler.errors import UsageError
from ms_profiler.options import OPTIONS


def run(*words):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args(words))


def test_the_list_names_every_option(capsys):
    assert run() == 0
    lines = capsys.readouterr().out.splitlines()
    heads = [line for line in lines if not line.startswith(" ")]
    assert len(heads) == len(OPTIONS)
    assert 'max_disk  (size, default "5GB")' in heads
    assert max(map(len, lines)) <= 100


def test_the_table_has_a_row_for_every_option():
    head, rule, *rows = command.table().splitlines()
    assert len(rows) == len(OPTIONS)
    assert {row.count(" | ") for row in [head, rule, *rows]} == {len(command.HEADINGS) - 1}


def test_a_document_gets_the_table_between_its_marks(tmp_path):
    document = tmp_path / "README.md"
    document.write_text(f"before\n{command.BEGIN}\nold\n{command.END}\nafter\n")
    assert run("--write", str(document)) == 0
    written = document.read_text()
    assert written == f"before\n{command.BEGIN}\n{command.table()}{command.END}\nafter\n"
    assert run("--write", str(document)) == 0
    assert document.read_text() == written
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]


@pytest.mark.parametrize("text", ["", command.BEGIN, f"{command.END}\n{command.BEGIN}"])
def test_a_document_without_marks_is_left_as_it_is(tmp_path, text):
    document = tmp_path / "README.md"
    document.write_text(text)
    with pytest.raises(UsageError, match="has no lines"):
        run("--write", str(document))
    assert document.read_text() == text


def test_a_document_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        run("--write", str(tmp_path / "README.md"))
