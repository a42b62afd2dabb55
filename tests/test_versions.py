"""`make test-versions` finds out whether a version of MindSpore works, and writes its table.

The runs of real versions, which pip would install, are not tested here.
"""

import re
import subprocess
import sys
from dataclasses import replace

import pytest
import versions
from conftest import ROOT
from versions import Job, Seen

LISTING = """mindspore (2.10.0)
Available versions: 2.10.0, 2.9.0, 2.7.1.post1, 1.9.0
  INSTALLED: 2.10.0
"""


def test_versions_are_those_of_mindspore_2_that_pip_lists():
    assert versions.parsed(LISTING) == ["2.10.0", "2.9.0", "2.7.1.post1"]
    assert versions.parsed(LISTING, "1.9") == ["1.9.0"]
    assert versions.parsed("ERROR: No matching distribution found for mindspore\n") == []


def test_interpreters_run_and_have_the_version_they_are_listed_by():
    found = versions.interpreters()
    assert found
    for name, path in found.items():
        shown = subprocess.run([path, "-V"], capture_output=True, text=True, check=True).stdout
        assert shown.startswith(f"Python {name}.")


@pytest.mark.slow
def test_a_working_run_has_no_problem_and_each_fault_is_one(tmp_path):
    bare, profiled = versions.run(sys.executable, "graph", None), versions.run(sys.executable, "graph", tmp_path)
    summary = profiled.summary
    version, hooks, kernels = summary["framework"]["version"], summary["hooks"], summary["kernels"]

    def problems(change=None, mode="graph", before=bare, **changes):
        return versions.problems(version, mode, before, replace(profiled, summary=summary | (change or {}), **changes))

    assert bare.summary is None and bare.ours == () and len(bare.out.splitlines()) == versions.STEPS
    assert problems() == []
    assert re.fullmatch(r"20 steps, [1-9]\d* kernels", versions.described(summary))

    reason = {"what": "kernels", "why": "this MindSpore has no recorder of CPU kernels"}
    lacking = {"kernels": kernels | {"count": 0}, "not_collected": [reason]}
    assert problems(lacking) == []
    assert versions.described(summary | lacking) == f"20 steps, no kernels: {reason['why']}"

    # numbers in a message may differ from run to run, words may not
    warned = replace(bare, lines=("[WARNING] PI(123,7f46abe): 07:08.140 late at 0x7f00abc",))
    assert problems(before=warned, lines=("[WARNING] PI(456,7f46ace6): 03:01.7 late at 0x6f00abe",)) == []
    early = "[WARNING] PI(123,7f46abe): 07:08.140 early"
    assert problems(before=warned, lines=(early,)) == [f"new on stderr: {early}"]

    assert problems(code=1) == ["exit code 1, not 0"]
    assert problems(before=replace(bare, code=1), code=1) == ["the script itself ends with 1: "]
    assert problems(out="0x0\n") == ["another output"]
    for ours in ((), ("recording to x",), ("recording to x", "y", "z"), ("x", "y")):
        assert problems(ours=ours) == [f"lines of ours: {' / '.join(ours) or 'none'}"]
    assert problems({"messages": ["hook x failed"]}) == ["messages ['hook x failed'], hooks that failed {}"]
    (failed,) = problems({"hooks": hooks | {"failed": {"a.b": "OSError"}}})
    assert "hooks that failed {'a.b': 'OSError'}" in failed
    assert problems(mode="pynative") == [f"recorded as {version} in graph mode"]
    assert problems({"framework": {"version": "1.0", "mode": "graph"}}) == ["recorded as 1.0 in graph mode"]
    assert problems({"steps": summary["steps"] | {"count": 19}}) == ["19 steps, not 20"]
    assert problems({"kernels": kernels | {"count": 0}}) == ["no kernels, and no reason given"]
    assert problems({"version": 2}) == ["summary.json: $.version: 1 was expected"]


def test_a_run_that_leaves_no_summary_is_broken(tmp_path):
    silent = tmp_path / "python"
    silent.write_text("#!/bin/sh\necho no such module >&2\nexit 1\n")
    silent.chmod(0o755)
    assert versions.run(str(silent), "graph", None) == Job(1, "", ("no such module",))
    with pytest.raises(versions.BrokenError, match="0 summaries; stderr: no such module"):
        versions.run(str(silent), "graph", tmp_path)


def test_equal_rows_become_one_and_the_newest_version_is_first():
    seen = [
        Seen("2.9.0", "3.10", ("a", "b"), ("mindspore.x", "mindspore.y|z"), True),
        Seen("2.10.0", "3.10", ("a", "b"), (), True),
        Seen("2.9.0", "3.9", ("a", "b"), ("mindspore.x", "mindspore.y|z"), True),
        Seen("2.9.0", "3.11", ("a", "other"), (), True),
    ]
    head, _, *rows = versions.table(seen).splitlines()
    assert head == f"| {' | '.join(versions.HEADINGS)} |"
    assert rows == [
        "| 2.10.0 | 3.10 | a | b | none |",
        "| 2.9.0 | 3.9, 3.10 | a | b | `x`, `y\\|z` |",
        "| 2.9.0 | 3.11 | a | other | none |",
    ]


def test_every_version_of_every_interpreter_is_examined_and_written(tmp_path, monkeypatch, capsys):
    offered = {"first": ["2.10.0", "2.9.0"], "second": ["2.10.0"], "third": []}
    broken = set()

    def examine(name, python, version, wheel, keep):
        return Seen(version, name, ("a", "b"), (), (version, name) not in broken)

    monkeypatch.setattr(versions, "interpreters", lambda: {"3.10": "first", "3.12": "second", "3.13": "third"})
    monkeypatch.setattr(versions, "available", offered.get)
    monkeypatch.setattr(versions, "examine", examine)
    monkeypatch.setattr(versions, "PLACE", tmp_path / "place")
    (tmp_path / "ms_profiler-1-cp310-abi3-linux_x86_64.whl").touch()
    document = tmp_path / "README.md"
    document.write_text(f"{versions.BEGIN}\n{versions.END}\n")

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["versions.py", "--wheel", str(tmp_path), *words])
        return versions.main()

    rows = "| 2.10.0 | 3.10, 3.12 | a | b | none |\n| 2.9.0 | 3.10 | a | b | none |\n"
    assert run("--write", str(document)) == 0
    assert document.read_text().endswith(f"| --- |\n{rows}{versions.END}\n")
    assert capsys.readouterr().out.endswith(rows)
    broken.add(("2.10.0", "3.12"))
    assert (run(), run("2.9.0"), run("1.0.0")) == (1, 0, 2)
    for words in (("2.9.0", "--write", str(document)), ("--wheel", str(tmp_path / "none"))):
        with pytest.raises(SystemExit):
            run(*words)


def test_a_document_gets_the_table_between_its_marks():
    document = f"before\n{versions.BEGIN}\nold\n{versions.END}\nafter\n"
    written = versions.rewritten(document, "new\n")
    assert written == f"before\n{versions.BEGIN}\nnew\n{versions.END}\nafter\n"
    with pytest.raises(ValueError, match="not found"):
        versions.rewritten("nothing", "new\n")


def test_the_table_of_the_compatibility_page_holds_the_version_that_the_tests_run_with():
    page = (ROOT / "docs/compatibility.md").read_text()
    rows = page[page.index(versions.BEGIN) : page.index(versions.END)].splitlines()[3:]
    pinned = re.search(r"mindspore==(\S+)", (ROOT / "Makefile").read_text())[1]
    assert rows[0].startswith(f"| {pinned} | ")
    assert not any("failed" in row for row in rows)
