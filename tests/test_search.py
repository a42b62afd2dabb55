"""The search for a tracing library begins with the process's libraries; the vendor's and PyPI's folders follow."""

import re
from dataclasses import replace

import pytest
from ms_profiler.job.devices import cupti, owner, search
from ms_profiler.job.devices.cupti import PLACES, Cupti

MAPS = """\
7f00-7f01 r-xp 00000000 fe:00 1 /usr/lib/libc.so.6
7f01-7f02 r--p 00000000 fe:00 2 /opt/my packages/nvidia/cuda_cupti/lib/libcupti.so.12
7f02-7f03 r-xp 00000000 fe:00 2 /opt/my packages/nvidia/cuda_cupti/lib/libcupti.so.12
7f03-7f04 rw-p 00000000 00:00 0
7f04-7f05 r-xp 00000000 fe:00 3 /opt/libToolsInjection64.so
7f05-7f06 r-xp 00000000 fe:00 4 /opt/nvidia/cuda_runtime/lib/libcudart.so.12
"""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return a function that adds files and loaded libraries to a machine without any."""
    monkeypatch.setattr(cupti, "PLACES", replace(PLACES, usual=(str(tmp_path / "usual*"),)))
    for name in (PLACES.variable, *PLACES.homes, cupti.INJECTION):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.path", ["", str(tmp_path / "site")])
    monkeypatch.setattr("sys.prefix", str(tmp_path / "prefix"))

    def place(*paths, maps=""):
        for path in paths:
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).touch()
        (tmp_path / "maps").write_text(maps)
        monkeypatch.setattr(search.mapped, "__defaults__", (str(tmp_path / "maps"),))
        return tmp_path

    return place


def test_a_mapped_library_is_found_once(machine):
    path = machine(maps=MAPS) / "maps"
    assert search.mapped(PLACES.mapped, str(path)) == ["/opt/my packages/nvidia/cuda_cupti/lib/libcupti.so.12"]
    assert search.mapped(re.compile("x"), "/nowhere") == []


def test_the_copy_in_the_process_comes_before_all_others(machine):
    machine("site/nvidia/cu13/lib/libcupti.so.13", maps=MAPS)
    assert Cupti().libraries() == ["/opt/my packages/nvidia/cuda_cupti/lib/libcupti.so.12"]


def test_the_variable_comes_before_that(machine, monkeypatch):
    machine(maps=MAPS)
    monkeypatch.setenv(PLACES.variable, "/mine.so")
    assert Cupti().libraries() == ["/mine.so"]


def test_the_usual_places(machine, monkeypatch):
    root = machine(
        "site/nvidia/cu13/lib/libcupti.so.13",
        "site/nvidia/cuda_cupti/lib/libcupti.so.12",
        "site/nvidia/cuda_cupti/lib/libcupti.so.12.8.90",
        "home/extras/CUPTI/lib64/libcupti.so.12",
        "usual-11.8/targets/x86_64-linux/lib/libcupti.so.11.8",
    )
    monkeypatch.setenv("CUDA_HOME", str(root / "home"))
    found = [
        root / "site/nvidia/cu13/lib/libcupti.so.13",
        root / "site/nvidia/cuda_cupti/lib/libcupti.so.12",
        root / "home/extras/CUPTI/lib64/libcupti.so.12",
        root / "usual-11.8/targets/x86_64-linux/lib/libcupti.so.11.8",
    ]
    assert Cupti().libraries() == [*map(str, found), *PLACES.names]


def test_that_of_the_runtime_in_the_process_comes_first(machine):
    root = machine(
        "site/nvidia/cu13/lib/libcupti.so.13",
        "site/nvidia/cuda_cupti/lib/libcupti.so.12",
        maps=MAPS.replace("libcupti", "libother"),
    )
    assert Cupti().libraries()[:2] == [str(root / "site/nvidia/cuda_cupti/lib/libcupti.so.12"), "libcupti.so.12"]


def test_owners(machine, monkeypatch):
    machine(maps=MAPS)
    assert Cupti().owner(False) == "Nsight Systems"
    machine()
    assert Cupti().owner(False) == owner.UNKNOWN
    monkeypatch.setitem(__import__("sys").modules, "torch", re)
    assert Cupti().owner(True) == "PyTorch's own profiler, which keeps it after its first use"
    monkeypatch.setenv(cupti.INJECTION, "/opt/tool/libtool.so")
    assert Cupti().owner(True) == f"libtool.so ({cupti.INJECTION})"
