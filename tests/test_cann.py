"""ms-profiler finds the toolkit by the variables of its script or in the installer's folder, and reads its version."""

import pytest
from ms_profiler import cann


@pytest.fixture(autouse=True)
def none_here(monkeypatch):
    """Make the machine look as if no toolkit were installed."""
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
        ("version.info", "[ver]\nVersion=8.2.RC1\n"),
    ],
)
def test_a_file_in_it_has_the_version(tmp_path, place, text):
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_text(text)
    (tmp_path / "lib64").mkdir()
    assert cann.version(str(tmp_path / "lib64" / "libmsprofiler.so")) == "CANN 8.2.RC1"


def test_the_version_is_unknown(tmp_path):
    assert cann.version(str(tmp_path / "lib64" / "libmsprofiler.so")) == ""


@pytest.mark.parametrize("place", ["bin", "tools/profiler/bin"])
def test_msprof_is_searched_on_the_path_and_in_the_toolkit(monkeypatch, tmp_path, place):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(cann, "USUAL", ())
    monkeypatch.setenv("ASCEND_TOOLKIT_HOME", str(tmp_path))
    (tmp_path / place).mkdir(parents=True)
    tool = tmp_path / place / "msprof"
    tool.touch()
    assert cann.msprof() == ""
    tool.chmod(0o755)
    assert cann.msprof() == str(tool)
    other = tmp_path / "msprof"
    other.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cann.msprof() == str(other)
