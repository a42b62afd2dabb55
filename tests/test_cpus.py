import os
import subprocess
import sys

import pytest
from ms_profiler.analysis.driver import cpus


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """Make a tree of control groups with this process in group a/b, and return its folder."""
    monkeypatch.setattr(cpus, "_UNIFIED", str(tmp_path))
    monkeypatch.setattr(cpus, "_LEGACY", str(tmp_path / "none"))
    monkeypatch.setattr(cpus, "_groups", lambda: [str(tmp_path), str(tmp_path / "a"), str(tmp_path / "a" / "b")])
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)))
    (tmp_path / "a" / "b").mkdir(parents=True)
    return tmp_path


def test_affinity_without_a_group(groups):
    assert cpus.usable() == 16


@pytest.mark.parametrize(
    ("quotas", "count"),
    [
        ({"a/b": "400000 100000"}, 4),
        ({"a": "150000 100000", "a/b": "max 100000"}, 2),
        ({"": "max 100000"}, 16),
        ({"a": "800000 100000", "a/b": "300000 100000"}, 3),
        ({"a/b": "10000 100000"}, 1),
        ({"a/b": "nonsense"}, 16),
    ],
)
def test_smallest_quota_around_counts(groups, quotas, count):
    for folder, text in quotas.items():
        (groups / folder / "cpu.max").write_text(text + "\n")
    assert cpus.usable() == count


def test_quota_of_the_legacy_hierarchy(groups):
    (groups / "a" / "cpu.cfs_quota_us").write_text("250000\n")
    (groups / "a" / "cpu.cfs_period_us").write_text("100000\n")
    assert cpus.usable() == 2


def test_groups_of_this_process_end_with_its_own():
    with open("/proc/self/cgroup") as stream:
        lines = stream.read().splitlines()
    for line in lines:
        number, _, path = line.split(":", 2)
        if number == "0" and path != "/":
            assert f"/sys/fs/cgroup{path}" in cpus._groups()
    assert "/sys/fs/cgroup" in cpus._groups()


@pytest.mark.parametrize(("given", "most", "expected"), [(None, 1, 1), ("7", 1, 7)])
def test_polars_keeps_to_the_limit_and_the_user_may_decide(given, most, expected):
    ours = ("POLARS_MAX_THREADS", "_RJEM_MALLOC_CONF")
    environ = {key: value for key, value in os.environ.items() if key not in ours}
    if given:
        environ["POLARS_MAX_THREADS"] = given
    code = f"""
import sys
from ms_profiler.analysis.driver import cpus
assert 'polars' not in sys.modules
cpus.limit_polars({most})
import polars
print(polars.thread_pool_size())
"""
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(expected)
    assert done.stderr == ""  # Polars' allocator complains of settings that it does not know


def test_where_polars_is_imported_already_the_environment_stays(monkeypatch):
    for name in ("POLARS_MAX_THREADS", "_RJEM_MALLOC_CONF"):
        monkeypatch.delenv(name, raising=False)
    assert "polars" in sys.modules
    cpus.limit_polars(1)
    assert not {"POLARS_MAX_THREADS", "_RJEM_MALLOC_CONF"} & set(os.environ)
