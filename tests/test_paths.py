"""Our functions for paths answer as those of `os` and `os.path` do."""

import os

import pytest
from ms_profiler import paths


@pytest.fixture
def tree(tmp_path):
    """Return a folder with files, folders and links."""
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    for name in ("file", "folder/first", "folder/inner/second"):
        (tmp_path / name).write_text(name)
    (tmp_path / "to_folder").symlink_to(tmp_path / "folder")
    (tmp_path / "to_nothing").symlink_to(tmp_path / "nothing")
    return tmp_path


def test_they_tell_files_folders_and_links_apart(tree, monkeypatch):
    monkeypatch.chdir(tree)
    for name in ("file", "folder", "to_folder", "to_nothing", "nothing", "file/below", "a\0b", ""):
        for ask in ("exists", "isdir", "isfile", "islink"):
            assert getattr(paths, ask)(name) == getattr(os.path, ask)(name), (ask, name)
    assert paths.getsize("folder/first") == 12
    for name in ("file", "folder/../file", "/", str(tree), ""):
        assert paths.abspath(name) == os.path.abspath(name)


def test_they_list_the_files_below_a_folder(tree):
    assert {(folder, *sorted(names)) for folder, names in paths.files(str(tree))} == {
        (str(tree), "file", "to_folder", "to_nothing"),
        (str(tree / "folder"), "first"),
        (str(tree / "folder" / "inner"), "second"),
    }
    assert list(paths.files(str(tree / "nothing"))) == []


def test_they_make_folders_or_say_why_not(tree):
    for name in ("new/and/deeper", "new", "folder/", "to_folder"):
        paths.makedirs(str(tree / name) + "/" * name.endswith("/"), 0o750)
        assert (tree / name).is_dir()
    assert (tree / "new" / "and" / "deeper").stat().st_mode & 0o777 == 0o750
    for name, error in (("file", FileExistsError), ("file/below", NotADirectoryError), ("to_nothing", FileExistsError)):
        with pytest.raises(error):
            paths.makedirs(str(tree / name), 0o750)
    with pytest.raises(FileNotFoundError):
        paths.makedirs("/proc/data", 0o750)
    with pytest.raises(FileExistsError):
        paths.makedirs(str(tree / "to_nothing" / "below"), 0o750)
