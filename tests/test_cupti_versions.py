"""`make test-cupti` tests the right versions, finds errors, and writes its table.

No test here downloads NVIDIA's packages. The made-up library replaces NVIDIA's.
"""

import shutil
import zipfile

import cupti_versions
import pytest
from conftest import ROOT
from cupti_versions import Seen, Version, minors
from fakes_built import fakes  # noqa: F401
from versions import BrokenError


def test_the_last_of_each_minor_version_is_taken():
    assert minors(["12.9.19", "12.9.79", "13.2.9", "13.2.86", "11.8.87"]) == ["13.2.86", "12.9.79", "11.8.87"]


@pytest.fixture
def unpacked(fakes, tmp_path):  # noqa: F811
    """Return a version of CUPTI whose library is the made-up one."""
    shutil.copy(fakes / "libcupti.so.12", tmp_path)
    return Version(tmp_path, tmp_path, fakes)


@pytest.mark.slow
def test_a_job_without_a_driver_is_the_same(unpacked):
    assert unpacked.without() == "the same; not loaded"


@pytest.mark.slow
def test_a_library_that_refuses_costs_a_line(unpacked, monkeypatch):
    monkeypatch.setenv("FAKE_CUPTI", "fails")
    why = "cuptiGetVersion answered 999; see that the driver is as new as the library"
    assert unpacked.beside() == f"the same; {why}"


@pytest.mark.slow
def test_a_library_that_records_is_an_error_where_a_refusal_is_expected(unpacked):
    with pytest.raises(BrokenError, match="lines of ours"):
        unpacked.beside()


@pytest.mark.slow
def test_a_job_that_crashes_is_an_error(unpacked, monkeypatch):
    monkeypatch.setenv("FAKE_CUPTI", "segfaults")
    with pytest.raises(BrokenError, match="exit code: -11, not 0"):
        unpacked.beside()


@pytest.mark.parametrize(
    ("words", "answer"), [("", "says 26"), ("fails", "answers 999"), ("crashes", "crashes (SIGSEGV)")]
)
def test_the_result_of_a_bare_call(unpacked, monkeypatch, words, answer):
    monkeypatch.setenv("FAKE_CUPTI", words)
    assert unpacked.called() == answer


def test_a_failed_download_is_reported(monkeypatch, tmp_path):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setattr(cupti_versions.versions, "PLACE", tmp_path)
    seen = cupti_versions.examine("no-such-package", "1.0", tmp_path, tmp_path, False)
    assert not seen.passed
    assert seen.cells[0].startswith("failed: cannot be downloaded: ERROR: No matching distribution")
    assert list(tmp_path.iterdir()) == []


def test_a_package_is_unpacked_and_not_kept(monkeypatch, tmp_path):
    with zipfile.ZipFile(tmp_path / "a_package-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("a/libcupti.so.12", "")
        wheel.writestr("a_package-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: a-package\nVersion: 1.0\n")
        wheel.writestr("a_package-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("a_package-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    folder = tmp_path / "unpacked"
    cupti_versions.download(folder, "a-package==1.0")
    assert cupti_versions.only(folder, "libcupti.so.*") == folder / "a" / "libcupti.so.12"
    assert not (folder / "wheels").exists()


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(BrokenError, match=r"0 files cuda\.h"):
        cupti_versions.only(tmp_path, "cuda.h")


def test_the_table_of_the_compatibility_page_has_the_headings(tmp_path):
    text = (ROOT / "docs/compatibility.md").read_text()
    assert cupti_versions.table([]).splitlines()[0] in text
    assert f"| 13.2.86 | {'x | ' * 4}".rstrip() in cupti_versions.table([Seen("13.2.86", ("x",) * 4, True)])
