"""ms-profiler recognises helper processes by their command line, and leaves them alone."""

import pytest
from ms_profiler.job import helper

SPAWN = ["python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(5)", "--multiprocessing-fork"]
SITE = "/x/lib/python3.11/site-packages/mindspore"
INDUCTOR = "/x/lib/python3.11/site-packages/torch/_inductor"


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (["python"], ("", "")),
        (["python", "train.py", "-c", "x"], ("", "train.py")),
        (["python", "-"], ("", "-")),
        (["python", "-c", "pass", "-m", "x"], ("-c", "pass")),
        (["python", "-cpass"], ("-c", "pass")),
        (["python", "-uIm", "pip", "list"], ("-m", "pip")),
        (["python", "-W", "error", "-X", "dev", "-m", "pip"], ("-m", "pip")),
        (["python", "-Werror", "-Xdev", "train.py"], ("", "train.py")),
        (["python", "-uW", "error", "train.py"], ("", "train.py")),
        (["python", "--check-hash-based-pycs", "never", "train.py"], ("", "train.py")),
        (["python", "-m"], ("-m", "")),
        ([], ("", "")),
    ],
)
def test_the_program_of_an_interpreter(command, found):
    assert helper.program(command) == found


@pytest.mark.parametrize(
    "command",
    [
        ["python", "-c", "from multiprocessing.resource_tracker import main;main(9)"],
        ["python", "-m", "pip", "install", "x"],
        ["python", "-Im", "pip._internal.cli"],
        ["/venv/bin/python3.11", "/venv/bin/pip3.11", "list"],
        ["python", "/venv/lib/pyproject_hooks/_in_process/_in_process.py", "build_wheel"],
        ["python", "/opt/conda/bin/conda", "info"],
        ["python", "/venv/bin/ninja"],
        ["python", "/venv/bin/gcc-12"],
        ["python", "/venv/bin/c++"],
        ["python", "-m", "py_compile", "x.py"],
        ["python", "-m", "compileall", "."],
        ["python", "/venv/bin/ms-profiler", "summary", "data"],
        ["python", "-m", "ms_profiler.cli", "analyse", "data"],
    ],
)
def test_tools(command):
    assert helper.is_tool(command)
    assert helper.is_helper(command, {})


@pytest.mark.parametrize(
    ("command", "environ"),
    [
        (["python", "-c", "from multiprocessing.forkserver import main; main(3, 4)"], {}),
        (["python", "train.py"], {"MS_ROLE": "MS_SCHED", "RANK_ID": "0"}),
        (["python", "/venv/bin/msrun", "--worker_num=2", "train.py"], {}),
        (["python", "-m", "mindspore.parallel.cluster.run", "train.py"], {}),
        (["python", f"{SITE}/parallel/cluster/run.py"], {}),
        (["python", f"{SITE}/_extends/remote/kernel_build_server_akg.py", "0"], {}),
        (["python", f"{SITE}/_akg/akg/utils/compiler.py"], {}),
        (["python", f"{SITE}/ops_generate/gen_custom_ops.py", "-i", "x"], {}),
        (["python", "-m", "mindspore._extends.remote.kernel_build_server_akg"], {}),
        (["python", f"{INDUCTOR}/compile_worker/__main__.py", "--workers=2", "--parent=7"], {}),
        (["python", "-m", "torch._inductor.__autotune_main__", "--parent=7"], {}),
        (["python", "-m", "torch._vendor.quack._compile_worker"], {}),
        (["python", "-c", '\nimport torch\nfrom ctypes import cdll\ncdll.LoadLibrary("/tmp/x.so")\n'], {}),
        (["python", "-m", "torch.backends.xeon.run_cpu", "train.py"], {}),
        (["python", "/venv/bin/accelerate", "launch", "train.py"], {}),
        (["python", "-m", "accelerate.commands.launch", "train.py"], {}),
        (["python", "/venv/bin/deepspeed", "--num_gpus=2", "train.py"], {}),
        (["python", "-u", "-m", "deepspeed.launcher.launch", "--world_info=x", "train.py"], {}),
        (["python", "/venv/bin/composer", "-n", "2", "train.py"], {}),
        (
            ["python", "-c", 'import pkgutil;path = pkgutil.get_loader("mindspore._extends.remote.x").get_filename()'],
            {},
        ),
    ],
)
def test_companions_of_a_job(command, environ):
    assert not helper.is_tool(command)
    assert helper.is_companion(command, environ)
    assert helper.is_helper(command, environ)


@pytest.mark.parametrize(
    ("command", "environ"),
    [
        (["python", "train.py"], {"MS_ROLE": "MS_WORKER", "RANK_ID": "0"}),
        (["python"], {}),
        (["python", "-"], {}),
        (["python", "-m", "train"], {}),
        (["python", "-m", "pdb", "train.py"], {}),
        (["python", "-m", "pipeline.train"], {}),
        (["python", "/home/pip/train.py"], {}),
        (["python", "ld.py"], {}),
        (["python", "/home/mindspore/train.py"], {}),
        (["python", "/home/torch/train.py"], {}),
        (["python", "-c", "import mindspore"], {}),
        (["python", "-c", "import torch\nfrom ctypes import cdll\n"], {}),
        (["python", "/venv/bin/pytest", "tests"], {}),
        (SPAWN, {}),
    ],
)
def test_commands_that_are_no_helpers(command, environ):
    assert helper.is_helper(command, environ) == ""
