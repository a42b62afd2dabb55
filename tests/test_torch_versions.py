"""`make test-torch-versions` tries the right versions, finds differences, and writes its table.

The runs of real versions, which pip would install, are not tested here.
"""

import json
import re
import sys
from pathlib import Path

import pytest
import torch_versions
import versions
from conftest import ROOT
from torch_versions import Seen, minors
from versions import BrokenError

#: stand-in for a job; with the variable, it prints and writes what the profiler would, with the difference that its
#: argument names
JOB = """
import json, os, pathlib, sys
options = os.environ.get("MS_PROFILER_OPTIONS")
changed = sys.argv[1] if options else ""
print("another loss" if changed == "output" else "a loss")
print("warning 7" if not options else "warning 8", file=sys.stderr)
if options:
    results = 2 if changed == "results" else 1
    for number in range(results):
        (pathlib.Path(json.loads(options)["output_path"]) / f"{number}_ascend_ms").mkdir(parents=True)
    print("ms-profiler: recording to x", file=sys.stderr)
    print("ms-profiler: recorded to x", file=sys.stderr)
    if changed == "line":
        print("ms-profiler: a hook failed", file=sys.stderr)
    if changed == "warning":
        print("late 9", file=sys.stderr)
    if changed == "code":
        sys.exit(3)
sys.exit(4 if sys.argv[1] == "script" else 0)
"""


def test_the_last_of_each_minor_version_is_taken():
    found = ["2.13.0+cpu", "2.13.0", "2.12.0", "2.12.1", "2.4.0", "2.4.1", "2.3.1"]
    assert minors(found) == ["2.13.0+cpu", "2.12.1", "2.4.1"]
    assert minors([]) == []


def test_a_run_that_does_the_same_is_none_to_complain_about(tmp_path):
    (run,) = torch_versions.both(sys.executable, tmp_path, ["-c", JOB, ""], analyse="off")
    assert (run.result, run.summary) == (tmp_path / "data" / "0_ascend_ms", None)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ("output", "another output"),
        ("results", "2 results, not 1"),
        ("line", "lines of ours: .*a hook failed"),
        ("warning", "new on stderr: late 9"),
        ("code", "exit code 3"),
        ("script", "the script itself ends with 4"),
    ],
)
def test_every_difference_is_an_error(tmp_path, changed, message):
    with pytest.raises(BrokenError, match=message):
        torch_versions.both(sys.executable, tmp_path, ["-c", JOB, changed], analyse="off")


@pytest.mark.parametrize("changed", ["", "rank_1", "logs/none_1/attempt_0/0/stdout.log"])
def test_files_are_compared_rank_by_rank(tmp_path, monkeypatch, changed):
    """Each rank writes its stdout to a file: on a common stdout, ranks cut each other's lines."""

    def both(python, folder, words, results, analyse, limit):
        assert {"--redirects=1", "--log-dir=logs"} <= set(words)
        for run in ("bare", "profiled"):
            for rank in range(results):
                files = (f"rank_{rank}", f"logs/none_1/attempt_0/{rank}/stdout.log")
                for file in (folder / run / name for name in files):
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_text(f"{rank}")
        if changed:
            (folder / "profiled" / changed).write_text("another")
        return []

    monkeypatch.setattr(torch_versions, "both", both)
    version = torch_versions.Version(sys.executable, tmp_path)
    if changed:
        with pytest.raises(BrokenError, match=r"another, not [01]$"):
            version.ranks()
    else:
        version.ranks()


def test_a_file_that_one_run_lacks_is_an_error(tmp_path):
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "rank_0").touch()
    (tmp_path / "profiled").mkdir()
    with pytest.raises(BrokenError, match="files rank_0 of the run profiled: 0, not 1"):
        torch_versions.expect_same_files(tmp_path, "rank_0")


def test_a_summary_has_to_be_valid_and_free_of_failures(tmp_path):
    summary = tmp_path / "summary.json"
    summary.write_text("{}")
    with pytest.raises(BrokenError, match="is a required property"):
        torch_versions._summary(tmp_path, "sync")
    schema = json.loads(versions.SCHEMA.read_text())
    assert {"messages", "hooks"} <= set(schema["required"])


def test_every_version_is_examined_and_written(tmp_path, monkeypatch, capsys):
    def examine(python, version, wheel, keep):
        return Seen(version, ("CUDA 12.1", "failed: x|y" if version in broken else "fine"), version not in broken)

    broken = set()
    monkeypatch.setattr(versions, "available", lambda python, name: ["2.5.1", "2.4.1", "2.4.0"])
    monkeypatch.setattr(torch_versions, "examine", examine)
    (tmp_path / "ms_profiler-1-cp310-abi3-linux_x86_64.whl").touch()
    document = tmp_path / "README.md"
    document.write_text(f"before\n{torch_versions.BEGIN}\nold\n{torch_versions.END}\nafter\n")

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["torch_versions.py", "--wheel", str(tmp_path), *words])
        return torch_versions.main()

    python = ".".join(map(str, sys.version_info[:2]))
    rows = f"| 2.5.1 | {python} | CUDA 12.1 | fine |\n| 2.4.1 | {python} | CUDA 12.1 | fine |\n"
    assert run("--write", str(document)) == 0
    assert document.read_text().startswith(f"before\n{torch_versions.BEGIN}\n| PyTorch |")
    assert document.read_text().endswith(f" |\n{rows}{torch_versions.END}\nafter\n")
    broken.add("2.4.0")
    capsys.readouterr()
    assert (run(), run("2.4.0"), run("1.0")) == (0, 1, 2)
    assert "failed: x\\|y" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        run("--wheel", str(tmp_path / "none"))


def test_a_version_that_cannot_be_installed_is_a_row_of_failures(tmp_path, monkeypatch):
    def install(*arguments):
        raise BrokenError("cannot be installed: no room")

    monkeypatch.setattr(versions, "PLACE", tmp_path)
    monkeypatch.setattr(versions, "install", install)
    seen = torch_versions.examine(sys.executable, "2.4.1", Path("x.whl"), False)
    assert not seen.passed
    assert set(seen.cells) == {"failed: cannot be installed: no room"}
    assert len(seen.cells) == len(torch_versions.HEADINGS) - 2


def test_the_table_of_the_compatibility_page_holds_versions_that_passed():
    page = (ROOT / "docs/compatibility.md").read_text()
    rows = page[page.index(torch_versions.BEGIN) : page.index(torch_versions.END)].splitlines()[3:]
    assert any(row.startswith("| 2.4.") for row in rows)
    assert len(rows) >= 3
    assert not any("failed" in row for row in rows)
    pinned = re.search(r"torch==(\S+)", (ROOT / "Makefile").read_text())[1]
    assert any(row.startswith(f"| {pinned}") for row in rows)


def test_a_run_that_hangs_is_ended(tmp_path):
    with pytest.raises(BrokenError, match="did not end within 1 s without the profiler"):
        torch_versions.launched(
            sys.executable, tmp_path / "run", ["-c", "import signal; signal.pause()"], None, limit=1
        )
