"""`ms-profiler doctor` names the cause in each planted situation, and no cause in a sound one."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, environment, eventually
from store_builder import training

SITE = ROOT / "sitecustomize"
ON = '{"start": true, "output_path": "data"}'
TRAINING = "import mindspore\nprint('trained')\n"


def interpreter(folder, *, installed, framework=True):
    """Make a virtual environment, optionally with ms-profiler and with an empty framework; return its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    if installed:
        for name in ("ms_profiler.pth", "ms_profiler.start", "ms_profiler_start.py"):
            (packages / name).write_text((SITE / name).read_text())
        (packages / "ms_profiler").symlink_to(ROOT / "agent" / "ms_profiler")
    if framework:
        (packages / "mindspore").mkdir()
        (packages / "mindspore" / "__init__.py").write_text("__version__ = '0'\n")
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def pythons(tmp_path_factory):
    """Return interpreters by the names that the situations use for them."""
    folder = tmp_path_factory.mktemp("pythons")
    return {
        "PYTHON": interpreter(folder / "installed", installed=True),
        "BARE": interpreter(folder / "bare", installed=False),
        "EMPTY": interpreter(folder / "empty", installed=True, framework=False),
    }


def doctor(*words, cwd, variables):
    """Run the command; return its exit code and its findings."""
    command = [sys.executable, "-m", "ms_profiler", "doctor", "--json", *map(str, words)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=100, cwd=cwd, check=False)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)["findings"]


def first(findings):
    """Return the finding that the command prints first."""
    return min(findings, key=lambda finding: ("cause", "note", "ok").index(finding["state"]))


#: planted situation -> (options, further environment, command, subject of the finding, part of its text); FOLDER is the
#: job's folder
CAUSES = {
    "no variable": (None, {}, "PYTHON train.py", "variable", "MS_PROFILER_OPTIONS is not set"),
    "an empty variable": ("", {}, "PYTHON train.py", "variable", "is empty"),
    "no JSON": ("start=true", {}, "PYTHON train.py", "variable", "is not JSON"),
    "a list": ("[1]", {}, "PYTHON train.py", "variable", "not an object"),
    "start is missing": ('{"output_path": "data"}', {}, "PYTHON train.py", "variable", "does not switch profiling on"),
    "start is false": ('{"start": false}', {}, "PYTHON train.py", "variable", "does not switch profiling on"),
    "env takes it away": (ON, {}, "env -u MS_PROFILER_OPTIONS PYTHON train.py", "variable", "is not set"),
    "env begins anew": (ON, {}, "nohup env -i PYTHON train.py", "variable", "is not set"),
    "another rank": (
        '{"start": true, "ranks": [0]}',
        {"RANK": "3", "WORLD_SIZE": "4"},
        "PYTHON train.py",
        "rank",
        "leaves out rank 3 of 4",
    ),
    "-S": (ON, {}, "PYTHON -S train.py", "activation", "-S keeps Python from"),
    "-I": (ON, {"PYTHONPATH": str(SITE)}, "BARE -I train.py", "activation", "-I makes Python ignore PYTHONPATH"),
    "-E": (ON, {"PYTHONPATH": str(SITE)}, "BARE -BE train.py", "activation", "-E makes Python ignore PYTHONPATH"),
    "another interpreter": (ON, {}, "BARE train.py", "activation", "ms-profiler is not installed for"),
    "by its first line": (ON, {}, "./train_bare", "activation", "ms-profiler is not installed for"),
    "only the package on PYTHONPATH": (
        ON,
        {"PYTHONPATH": str(ROOT / "agent")},
        "BARE train.py",
        "activation",
        "reads no .pth file there",
    ),
    "another sitecustomize": (
        ON,
        {"PYTHONPATH": f"FOLDER/other:{SITE}"},
        "BARE train.py",
        "activation",
        "Another sitecustomize comes before",
    ),
    "no framework": (ON, {}, "EMPTY train.py", "framework", "finds neither mindspore nor torch"),
    "the script sets it": (ON, {}, "PYTHON sets.py", "script", "sets MS_PROFILER_OPTIONS itself, in line 2"),
    "the script needs no framework": (ON, {}, "PYTHON plain.py", "script", "imports neither mindspore nor torch"),
    "no such script": (ON, {}, "PYTHON missing.py", "script", "cannot be read"),
    "no such program": (ON, {}, "no-such-program train.py", "command", "There is no program"),
    "a frozen program": (ON, {}, "./frozen", "command", "is a frozen program"),
    "a tool": (ON, {}, "PYTHON -m pip install x", "command", "it is the tool pip."),
    "a scheduler": (ON, {"MS_ROLE": "MS_SCHED"}, "PYTHON train.py", "command", "the scheduler of a distributed job"),
}
NOTES = {
    "an unknown option": ('{"start": true, "outputpath": "x"}', {}, "PYTHON train.py", "variable", "unknown option"),
    "a file that cannot be a directory": (
        '{"start": true, "output_path": "/dev/null/data"}',
        {},
        "PYTHON train.py",
        "output",
        "Nothing can be written to output_path",
    ),
    "a link": ('{"start": true, "output_path": "link"}', {}, "PYTHON train.py", "output", "is a symbolic link"),
    "a file that asks for steps": (
        '{"start": true, "dynamic": "steps.json"}',
        {},
        "PYTHON train.py",
        "schedule",
        "Nothing is recorded until the file steps.json names steps",
    ),
    "a package that may import it": (
        ON,
        {},
        "PYTHON indirect.py",
        "script",
        "if one of these packages does: lightning",
    ),
    "sudo": (ON, {}, "sudo PYTHON train.py", "command", "sudo may start the job without"),
    "a shell script": (ON, {}, "/bin/true", "command", "is no Python interpreter"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, pythons):
    """Return the folder of a job, with every file that the situations name."""
    folder = tmp_path_factory.mktemp("job")
    (folder / "train.py").write_text("import train_steps\n")
    (folder / "train_steps.py").write_text(TRAINING)
    (folder / "sets.py").write_text(f"import os\nos.environ['MS_PROFILER_OPTIONS'] = '{ON}'\n{TRAINING}")
    (folder / "plain.py").write_text("import json\nprint(json.dumps(1))\n")
    (folder / "indirect.py").write_text("import json\nfrom lightning.pytorch import Trainer\n")
    (folder / "other").mkdir()
    (folder / "other" / "sitecustomize.py").write_text("")
    (folder / "frozen").write_bytes(b"\x7fELF....pyi _MEIPASS2 ....")
    (folder / "train_bare").write_text(f"#!{pythons['BARE']}\n{TRAINING}")
    (folder / "link").symlink_to(folder / "other")
    for name in ("frozen", "train_bare"):
        (folder / name).chmod(0o755)
    return folder


def examined(situation, pythons, folder):
    options, more, command, _, _ = situation
    variables = environment(None, **{key: value.replace("FOLDER", str(folder)) for key, value in more.items()})
    if options is not None:
        variables["MS_PROFILER_OPTIONS"] = options
    words = [str(pythons.get(word, word)) for word in command.split()]
    return doctor("--", *words, cwd=folder, variables=variables)


@pytest.mark.parametrize("name", CAUSES)
def test_the_cause_is_named(name, pythons, folder):
    code, findings = examined(CAUSES[name], pythons, folder)
    *_, about, text = CAUSES[name]
    found = first(findings)
    assert (code, found["state"], found["about"]) == (1, "cause", about), findings
    assert text in found["text"] and found["remedy"]
    assert not (folder / "data").exists()


@pytest.mark.parametrize("name", NOTES)
def test_surprising_settings_are_noted(name, pythons, folder):
    code, findings = examined(NOTES[name], pythons, folder)
    *_, about, text = NOTES[name]
    assert (code, [finding for finding in findings if finding["state"] == "cause"]) == (0, [])
    assert any(text in finding["text"] for finding in findings if finding["about"] == about), findings


def test_a_sound_job_has_no_finding(pythons, folder):
    code, findings = examined((ON, {}, "PYTHON train.py", "", ""), pythons, folder)
    assert code == 0
    assert {finding["about"] for finding in findings if finding["state"] == "ok"} == {
        "variable",
        "output",
        "interpreter",
        "activation",
        "framework",
        "script",
    }
    assert [finding["about"] for finding in findings if finding["state"] == "cause"] == []


def test_a_page_begins_with_the_cause(folder, pythons):
    command = [sys.executable, "-m", "ms_profiler", "doctor", "--", pythons["BARE"], "train.py"]
    done = subprocess.run(command, env=environment(ON), capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 1
    assert done.stdout.startswith("!! activation: ms-profiler is not installed for ")
    assert "-m pip install ms-profiler" in done.stdout.splitlines()[1]


def test_a_process_that_runs(pythons, folder):
    """The doctor examines the environment and the interpreter of the other process, not its own."""
    program = "import sys; print('on', flush=True); sys.stdin.read()"
    running = subprocess.Popen(
        [pythons["BARE"], "-c", program], env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder
    )
    try:
        assert running.stdout.readline() == b"on\n"
        code, findings = doctor(running.pid, cwd="/", variables=environment(ON))
    finally:
        running.communicate()
    assert code == 1
    causes = [finding["text"] for finding in findings if finding["state"] == "cause"]
    assert causes[0].startswith("MS_PROFILER_OPTIONS is not set")
    assert causes[1].startswith("ms-profiler is not installed for ")


def test_a_process_that_records(folder, tmp_path):
    program = "import sys, torch; print('on', flush=True); sys.stdin.read()"
    running = subprocess.Popen(
        [sys.executable, "-c", program],
        env=environment({"start": True, "output_path": str(tmp_path), "analyse": "off"}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert running.stdout.readline() == b"on\n"
        code, findings = doctor(running.pid, cwd="/", variables=environment())
    finally:
        running.communicate()
    (result,) = tmp_path.glob("*_ascend_ms")
    assert (code, [finding["text"] for finding in findings]) == (0, [f"Process {running.pid} records into {result}."])


def test_a_process_that_is_not_there():
    command = [sys.executable, "-m", "ms_profiler", "doctor", str(2**22 + 1)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"ms-profiler: There is no process {2**22 + 1}.")


def test_results(tmp_path):
    store = training(tmp_path)
    store.processes[0].info.records = 100
    path = store.write()
    code, findings = doctor(tmp_path, cwd="/", variables=environment())
    assert code == 0
    texts = [finding["text"] for finding in findings if finding["about"] == path.name]
    assert any(text.startswith("It is not analysed.") for text in texts)
    assert any(text.endswith("ended (exit) with 100 records.") for text in texts)


def test_hooks_devices_and_missing_data_of_a_result(tmp_path):
    store = training(tmp_path)
    store.processes[0].info.records = 100
    store.info.hooks = {"torch.a": "applied", "torch.b": "applied", "torch.c": "missing: torch has no c"}
    store.info.device_sources = {"NPU": {"interface": "msPTI", "why": "it serves all options"}}
    store.info.not_collected = [{"what": "kernels", "why": "Nsight Systems owns CUPTI"}]
    name = store.write().name
    _, findings = doctor(tmp_path, cwd="/", variables=environment())
    texts = [finding["text"] for finding in findings if finding["about"] == name]
    assert "2 of 3 hooks were applied." in texts
    assert "The hook of torch.c is missing: torch has no c." in texts
    assert "NPU records come from msPTI: it serves all options." in texts
    assert "Not collected: kernels: Nsight Systems owns CUPTI." in texts


def test_a_result_without_a_record(tmp_path):
    training(tmp_path).write()
    code, findings = doctor(tmp_path, cwd="/", variables=environment())
    assert code == 1
    assert first(findings)["text"].endswith("ended (exit) without a record.")


def test_a_directory_without_a_result(tmp_path):
    code, findings = doctor(tmp_path, cwd="/", variables=environment())
    assert code == 1
    assert first(findings)["text"] == f"{tmp_path} holds no result: no process recorded into it."


def run(*words, cwd, **extra):
    command = [sys.executable, "-m", "ms_profiler", "run", *map(str, words)]
    return subprocess.run(
        command, env=environment(**extra), capture_output=True, text=True, timeout=100, cwd=cwd, check=False
    )


def test_run_says_why_nothing_was_recorded(pythons, folder):
    done = run("--", pythons["PYTHON"], "plain.py", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "1\n")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"ms-profiler: nothing was recorded: {folder}/plain.py imports neither mindspore nor torch")


@pytest.mark.parametrize(
    ("program", "code"),
    [("import sys; sys.exit(3)", 3), ("import os; os.kill(os.getpid(), 15)", -signal.SIGTERM)],
)
def test_run_leaves_the_command_as_it_is(program, code, folder):
    """The command has the same parent, process id, children and end as without `ms-profiler run`."""
    show = "import os; print(os.getppid(), os.listdir(f'/proc/self/task/{os.getpid()}') and "
    show += (
        "open(f'/proc/self/task/{os.getpid()}/children').read(), sorted(os.listdir('/proc/self/fd'))[:-1], flush=True)"
    )
    bare = subprocess.run([sys.executable, "-c", f"{show}\n{program}"], capture_output=True, text=True, check=False)
    done = run("--", sys.executable, "-c", f"{show}\n{program}", cwd=folder)
    assert (done.returncode, done.stdout) == (bare.returncode, bare.stdout) == (code, bare.stdout)


def test_run_reports_no_missing_recording_after_success_or_a_failed_start(folder, tmp_path):
    done = run(
        "--output-path", tmp_path, "--option", "analyse=off", "--", sys.executable, "-c", "import torch", cwd="/"
    )
    assert done.returncode == 0
    assert "nothing was recorded" not in done.stderr and "recorded to" in done.stderr
    assert "nothing was recorded" not in run("--", "no-such-program", cwd=folder).stderr


def test_the_watcher_holds_no_pipe_of_the_command(pythons, folder):
    running = subprocess.Popen(
        [sys.executable, "-m", "ms_profiler", "run", "--", pythons["PYTHON"], "-c", "input()"],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=folder,
    )
    pipes = {f"pipe:[{os.fstat(pipe.fileno()).st_ino}]" for pipe in (running.stdin, running.stdout)}
    try:
        eventually(lambda: any(not pipes & links for links in watchers(running.pid)))
    finally:
        running.communicate(b"\n")


def watchers(command):
    """Return the targets of the open descriptors of each other `ms-profiler run` process."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
            if words[1:4] == [b"-m", b"ms_profiler", b"run"] and path.name != str(command):
                found.append({os.readlink(link) for link in (path / "fd").iterdir()})
        except OSError:
            continue  # the process has ended
    return found
