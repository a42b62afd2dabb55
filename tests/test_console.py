"""Control characters in names are shown and have no effect, on the terminal, in errors and in a job's lines."""

import io

import pytest
from ms_profiler import log
from ms_profiler.analysis.report import terminal
from ms_profiler.analysis.report.console import Terminal
from ms_profiler.errors import StoreError
from rich.text import Text

HOSTILE = "a\x1b]0;title\x07\x9b31m\u202eb\rc"
SHOWN = r"a\x1b]0;title\x07\x9b31m\u202eb\rc"


@pytest.mark.parametrize("text", ["plain", "中文　名", "two\nlines\tand a tab", "é…│"])
def test_visible_text_is_unchanged(text):
    assert log.visible(text) == text


def test_a_name_does_not_command_the_terminal():
    assert log.visible(HOSTILE) == SHOWN
    out = io.StringIO()
    console = Terminal(file=out, force_terminal=True, color_system="standard", width=200)
    console.print(Text(HOSTILE, style="bold"))  # Rich itself removes BEL and CR
    rest = SHOWN.replace(r"\x07", "").replace(r"\r", "")
    assert out.getvalue() == f"\x1b[1m{rest}\x1b[0m\n"
    assert isinstance(terminal.page(), Terminal)


def test_an_error_escapes_the_characters_of_a_name():
    assert str(StoreError(f"{HOSTILE} holds nothing.", "Name another.")) == f"{SHOWN} holds nothing. Name another."
