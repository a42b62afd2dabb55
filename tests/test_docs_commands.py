"""Each command line of the documents runs as written on a recorded job, or is listed with the reason why it cannot."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from conftest import ROOT, environment
from store_builder import write_training
from test_docs import PAGES, text_of

#: the job of the documents; `pause` is the seconds that each step waits
TRAIN = """
import time
import torch
torch.set_num_threads(1)
network = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
for _ in range(40):
    optimizer.zero_grad()
    network(torch.ones(32, 64)).sum().backward()
    optimizer.step()
    time.sleep({pause})
"""
#: A wait in seconds that is most of a step. So other work on the machine hardly changes the step's length, and the
#: noise of the runs stays below the gate's default threshold.
LONG_PAUSE = 0.1
PROGRAMS = ("ms-profiler", "python", "pip", "make", "git", "ssh", "export", "pre-commit")
#: commands that are complete without arguments
WHOLE = ("ms-profiler doctor", "ms-profiler tables", "ms-profiler options")
#: first words of set-off blocks that are not command lines: code, manifests, trees, printed lines
NO_COMMANDS = (
    "import",
    "with",
    "@pytest",
    "ray.init(",
    "spec:",
    "agent/",
    "job",
    "module",
    "Rank",
    "Goodput",
    "Stage",
    "Only",
)
#: pages whose commands run; the changelog is about earlier versions, and the translated README repeats the README's
#: commands
RUN = [page for page in PAGES if page.name not in ("CHANGELOG.md", "README.zh.md")]
#: pattern of a command line that cannot run here -> the reason
NEEDS = {
    r"^git clone URL_OF_THIS_REPOSITORY": "an address of the repository",
    r"^pip install '\./ms-profiler": "an environment of its own; test_install.py runs it",
    r"^pip install 'ms-profiler\[": "a release on PyPI",
    r"^pip install --no-index": "a wheelhouse; `make wheel-test` installs from one",
    r"^pip download ": "PyPI",
    r"^make [a-z0-9-]+( \w+=\S+)*$": "PyPI and minutes; the target is looked up",
    r"^pre-commit install$": "hooks of the checkout, which are not the test's to change",
    r"^python benchmarks/": "minutes, or a GPU; the file is looked up",
    r"^ssh ": "another machine",
    r"s3://": "an object store; test_storage.py runs it on a server of moto",
    r"tcp://HOST": "a Dask scheduler; test_engines.py starts one",
    r"^ms-profiler view ": "a browser, until Ctrl-C; test_view.py runs it",
    r"--self-test$": "minutes; test_gate.py runs it with fewer trials",
    r"analyse --export parquet$": "a result, which the sentence does not name",
    r"^git worktree add ": "a checkout with another version",
    r"^pip uninstall ": "an environment of its own",
    r"COMMAND|\.\.\.": "words in place of its own, which stand for any",
}
#: commands for which exit code 1 is a valid result
ANSWERS = ("ms-profiler doctor", "ms-profiler gate")
#: pages whose commands take long; the slow tests run them
LONG = {
    "CONTRIBUTING.md",
    "docs/gate.md",
    "docs/getting-started.md",
    "docs/architecture.md",
    "docs/how-to/slower.md",
    "docs/other-profilers.md",
    "docs/recipes.md",
    "docs/report.md",
    "docs/results.md",
    "docs/tables.md",
}


def needs(line):
    """Return why a command line cannot run here; empty if it can."""
    return next((why for pattern, why in NEEDS.items() if re.search(pattern, line)), "")


def program(line):
    """Return the program of a command line, without the variables set before it."""
    return re.sub(r"^(\w+=('[^']*'|\S*) )+", "", line).split(" ")[0]


def blocks(page):
    """Return the blocks of a page that are set off by four spaces, each as a list of lines."""
    text = re.sub(r"^```.*?^```", "", text_of(page), flags=re.MULTILINE | re.DOTALL)
    return [[line[4:] for line in block.splitlines()] for block in re.findall(r"(?:(?<=\n\n)|^)((?: {4}.*\n?)+)", text)]


def mentioned(page):
    """Yield the commands in the sentences and tables of a page, except for those that only name a command."""
    found = [" ".join(code.split()) for code in re.findall(r"(?<!`)`([^`]+)`", text_of(page))]
    for code in found:
        words = code.split()
        named = len(words) < 3 if words[0] in ("ms-profiler", "pip") else len(words) < 2
        if program(code) in PROGRAMS and (not named or code in WHOLE):
            yield code


def scripts(page):
    """Yield the commands of a page as lists of lines: each block, then each command in a sentence."""
    for block in blocks(page):
        if program(block[0]) in PROGRAMS:
            yield [re.sub(r" +#.*", "", line) for line in block if line]
        else:
            assert block[0].startswith(NO_COMMANDS), f"neither a command nor known as something else: {block[0]}"
    for code in mentioned(page):
        yield [code]


def to_run(page):
    """Return the commands of a page, without lines that cannot run here and without commands of earlier pages."""
    ran = []
    for each in RUN:
        here = [left for lines in scripts(each) if (left := [line for line in lines if not needs(line)])]
        if each == page:
            return [
                lines for lines in here if lines not in ran and not any(lines == [line] for old in ran for line in old)
            ]
        ran += here
    raise AssertionError(page)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Return a folder with the job of the documents, and with a result under each name that the documents use."""
    folder = tmp_path_factory.mktemp("documents") / "job"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN.format(pause=0.005))
    variables = environment({"start": True, "output_path": str(folder / "data"), "quiet": True})
    subprocess.run([sys.executable, "train.py"], cwd=folder, env=variables, check=True)
    for name in ("DIR", "DIR0", "DIR1", "A", "B", "BEFORE", "AFTER", "before", "after", "runs/new_1"):
        shutil.copytree(folder / "data", folder / name)
    for rank in range(2):
        name = f"host_{rank}_20260101000000123_ascend_ms"
        write_training(folder / "PARENT", name=name, rank=rank, world_size=2, job="launch")
    for name in ("perf", "shared"):
        (folder / name).mkdir()
    upstream = folder.parent / "upstream"
    upstream.mkdir()
    shutil.copy(folder / "train.py", upstream)
    git = ["git", "-c", "user.name=nobody", "-c", "user.email=nobody@localhost", "-C", upstream]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "The job"]):
        subprocess.run([*git, *words], check=True)
    subprocess.run(["git", "clone", "-q", upstream, folder.parent / "base"], check=True)
    return folder


def runnable(page, lines, folder):
    """Return the lines of a page as a shell script, with paths and process ids of this machine."""
    ranks = {"DIR": "PARENT"} if page.name == "ranks.md" else {}
    places = {"/shared/": f"{folder}/shared/", "/path/to/sitecustomize": str(ROOT / "sitecustomize")} | {
        "4242": str(os.getpid())
    }
    made = []
    for line in lines:
        for there, here in (places if not line.startswith("export ") else {}).items():
            line = line.replace(there, here)
        line = re.sub(r"\bDIR\b(?= |$)", ranks.get("DIR", "DIR"), line)
        line = re.sub(r"(?<=--job )RESULT\b", next((folder / "DIR").glob("*_ascend_ms")).name, line)
        made.append(f"{line} || [ $? = 1 ]" if line.startswith(ANSWERS) else line)
    return "\n".join(made)


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.slow] if str(page.relative_to(ROOT)) in LONG else []) for page in RUN],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_commands_run(page, recorded, tmp_path):
    """The commands of a page run one after another in a copy of the job's folder."""
    written = to_run(page)
    if not written:
        return
    folder = tmp_path / "job"
    shutil.copytree(recorded, folder, symlinks=True)
    shutil.copytree(recorded.parent / "base", tmp_path / "base")
    if str(page.relative_to(ROOT)) in LONG:
        for place in (folder, tmp_path / "base"):
            (place / "train.py").write_text(TRAIN.format(pause=LONG_PAUSE))
    variables = environment(PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}", GIT_COMMIT="0123abc")
    for lines in written:
        script = runnable(page, lines, folder)
        done = subprocess.run(
            ["/bin/sh", "-e", "-c", script], cwd=folder, env=variables, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"


def test_each_reason_is_needed_and_true():
    lines = {line for page in PAGES for block in scripts(page) for line in block}
    assert [pattern for pattern in NEEDS if not any(re.search(pattern, line) for line in lines)] == []
    for name in re.findall(r"test_\w+\.py", " ".join(NEEDS.values())):
        assert (ROOT / "tests" / name).exists(), name
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {line.split()[1] for line in lines if line.startswith("make ")} <= targets
    files = {line.split()[1] for line in lines if line.startswith("python benchmarks/")}
    assert [name for name in files if not (ROOT / name).exists()] == []


def test_both_languages_have_the_same_commands():
    english, chinese = (
        [line for lines in scripts(ROOT / name) for line in lines] for name in ("README.md", "README.zh.md")
    )
    assert english == chinese


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_other_sites_are_whole(page):
    """A link to another site has a valid address. The test does not follow it, because tests run without a network."""
    for link in re.findall(r"https?://[^\s)>`'\"]+", text_of(page)):
        parts = urlsplit(link.rstrip(".,;:"))
        assert parts.scheme == "https" or parts.hostname == "127.0.0.1", link
        assert re.fullmatch(r"([a-z0-9-]+\.)+[a-z]{2,}", parts.hostname or ""), link
        assert "//" not in parts.path and Path(parts.path).suffix != ".git", link
