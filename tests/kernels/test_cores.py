"""How many cores a process may use."""

import pytest

from somf.kernels.cpu import cores
from somf.kernels.cpu.cores import available_cores


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """Return a function that writes control groups, of a process with six cores otherwise."""
    monkeypatch.setattr(cores.os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    monkeypatch.setattr(cores, "MEMBERSHIP", tmp_path / "self")
    monkeypatch.setattr(cores, "CONTROL_GROUPS", tmp_path / "groups")
    cores.smallest_quota.cache_clear()

    def write(membership, files):
        (tmp_path / "self").write_text(membership)
        for name, content in files.items():
            (tmp_path / "groups" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "groups" / name).write_text(content)

    yield write
    cores.smallest_quota.cache_clear()


@pytest.mark.parametrize(
    ("content", "expected"),
    [("150000 100000", 2), ("50000 100000", 1), ("max 100000", 6), ("", 6), ("900000 100000", 6)],
)
def test_the_quota_of_a_container_limits_the_cores(groups, content, expected):
    groups("0::/\n", {"cpu.max": content})
    assert available_cores() == expected


def test_the_smallest_quota_of_nested_groups_counts(groups):
    files = {"a/cpu.max": "400000 100000", "a/b/cpu.max": "300000 100000", "a/b/c/cpu.max": "max 1"}
    groups("0::/a/b/c\n", files)
    assert available_cores() == 3


def test_a_group_whose_path_is_that_of_the_host_is_found_at_the_root(groups):
    groups("0::/docker/123\n", {"cpu.max": "200000 100000"})
    assert available_cores() == 2


@pytest.mark.parametrize(("quota", "expected"), [("250000", 3), ("-1", 6)])
def test_groups_of_version_1_limit_the_cores_too(groups, quota, expected):
    files = {
        "cpu,cpuacct/job/cpu.cfs_quota_us": quota,
        "cpu,cpuacct/job/cpu.cfs_period_us": "100000",
    }
    groups("5:memory:/job\n4:cpu,cpuacct:/job\n", files)
    assert available_cores() == expected


def test_without_control_groups_all_cores_are_available(groups):
    assert available_cores() == 6


def test_the_affinity_of_the_process_limits_the_cores(groups, monkeypatch):
    monkeypatch.setattr(cores.os, "sched_getaffinity", lambda _: {3, 5}, raising=False)
    assert available_cores() == 2
