"""Kernel names are demangled if this machine has a library that demangles."""

import ctypes

import pytest
from ms_profiler.analysis.readers import demangle


def test_mangled_names_are_demangled_and_others_unchanged():
    if demangle._library() is None:
        pytest.skip("there is no C++ library here")
    names = ["_Z4gemmPfi", "_ZN2at6native13reduce_kernelILi512EEEvv", "relu", "_Z", "_Znonsense", ""]
    assert list(demangle.names(names).values()) == [
        "gemm(float*, int)",
        "void at::native::reduce_kernel<512>()",
        "relu",
        "_Z",
        "_Znonsense",
        "",
    ]


def test_without_a_library_they_stay(monkeypatch):
    def missing(_):
        raise OSError

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert demangle.names(["_Z4gemmPfi"]) == {"_Z4gemmPfi": "_Z4gemmPfi"}
