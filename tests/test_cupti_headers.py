"""Our layouts of CUPTI's records and our numbers agree with the CUPTI headers of this machine, if it has any.

`make test-cupti` compares the headers of every version on PyPI.
"""

import glob
from pathlib import Path

import cupti_layouts
import pytest

FOLDERS = glob.glob("/usr/local/cuda*/include")


@pytest.mark.parametrize("folder", FOLDERS or [None])
def test_layouts_and_numbers(folder, tmp_path):
    if not Path(folder or "/", cupti_layouts.HEADER).exists():
        pytest.skip("there are no headers of CUPTI here")
    compared, wrong = cupti_layouts.differences(Path(folder), tmp_path)
    assert wrong == ""
    assert compared > 100


HEADER = """
typedef struct CUctx_st *CUcontext;
#include <stdint.h>
enum { CUPTI_ACTIVITY_KIND_MEMCPY = %(copy)d, CUPTI_ACTIVITY_KIND_MEMSET = 2 };
typedef struct { uint32_t kind; %(field)s uint64_t start, end; } CUpti_ActivityOverhead2;
typedef struct { uint32_t kind; } CUpti_ActivityOverhead;
"""


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Return a function that compares a structure and two numbers with a small header, as `differences` does."""
    monkeypatch.setattr(cupti_layouts, "LAYOUTS", {"overhead_record": ("Overhead", "start end")})
    monkeypatch.setattr(cupti_layouts, "SET", "")
    monkeypatch.setattr(cupti_layouts, "TEXTS", {})
    numbers = {"CUPTI_MEMCPY": "KIND_MEMCPY", "CUPTI_MEMSET": "KIND_MEMSET"}
    monkeypatch.setattr(cupti_layouts, "NUMBERS", numbers)

    def compare(field="uint32_t a[5];", copy=1):
        (tmp_path / "cuda.h").write_text("")
        memset = "typedef struct { uint32_t kind; } CUpti_ActivityMemset;\n"
        (tmp_path / cupti_layouts.HEADER).write_text(HEADER % {"field": field, "copy": copy} + memset)
        return cupti_layouts.differences(tmp_path, tmp_path)

    return compare


def test_the_newest_structure_is_compared(small):
    assert small() == (4, "")


def test_a_field_that_moved_is_reported(small):
    compared, wrong = small(field="uint32_t a[7];")
    assert compared == 4
    assert "CUpti_ActivityOverhead2, start" in wrong
    assert "CUPTI_MEMCPY" not in wrong


def test_another_number_is_reported(small):
    assert "CUPTI_MEMCPY" in small(copy=7)[1]


def test_a_missing_structure_is_an_error():
    with pytest.raises(LookupError, match="CUpti_ActivityKernel"):
        cupti_layouts.newest("", "Kernel")
