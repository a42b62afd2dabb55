"""The toolkit is where its script for the environment says, or where its installer puts it; it names its version."""

import pytest
from ms_profiler import cann


@pytest.fixture(autouse=True)
def none_here(monkeypatch):
    """A machine without a toolkit."""
    for name in cann.HOMES:
        monkeypatch.delenv(name, raising=False)


def test_the_environment_comes_first_and_nothing_twice(monkeypatch):
    monkeypatch.setenv("ASCEND_TOOLKIT_HOME", "/opt/older")
    monkeypatch.setenv("ASCEND_HOME_PATH", "/usr/local/Ascend/cann")
    assert cann.homes() == ["/usr/local/Ascend/cann", "/opt/older", "/usr/local/Ascend/ascend-toolkit/latest"]


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("aarch64-linux/ascend_toolkit_install.info", "package_name=Ascend-cann-toolkit\nversion=8.2.RC1\n"),
        ("compiler/version.info", "Version=8.2.RC1\nversion_dir=8.2\n"),
    ],
)
def test_a_file_in_it_tells_the_version(tmp_path, place, text):
    (tmp_path / place).parent.mkdir(parents=True)
    (tmp_path / place).write_text(text)
    (tmp_path / "lib64").mkdir()
    assert cann.version(str(tmp_path / "lib64" / "libmsprofiler.so")) == "8.2.RC1"


def test_nothing_tells_the_version(tmp_path):
    assert cann.version(str(tmp_path / "libmsprofiler.so")) == ""
