"""How many cores this process may use."""

import math
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath

MEMBERSHIP = Path("/proc/self/cgroup")
"""The file in which Linux says to which control groups a process belongs."""

CONTROL_GROUPS = Path("/sys/fs/cgroup")
"""Where Linux mounts the control groups."""


def available_cores() -> int:
    """Return how many cores this process may use: its affinity, and the quota of its container."""
    has_affinity = hasattr(os, "sched_getaffinity")
    n_cores = len(os.sched_getaffinity(0)) if has_affinity else (os.cpu_count() or 1)
    quota = smallest_quota()
    return n_cores if quota is None else max(1, min(n_cores, math.ceil(quota)))


@cache
def smallest_quota() -> float | None:
    """Return the CPU quota in cores: the smallest one of all control groups above this process."""
    return min(_quotas(), default=None)


def _quotas() -> Iterator[float]:
    try:
        lines = MEMBERSHIP.read_text().splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":  # version 2 has one tree for everything
            root, read = CONTROL_GROUPS, _quota
        elif "cpu" in controllers.split(","):
            root, read = CONTROL_GROUPS / controllers, _quota_of_version_1
        else:
            continue
        group = PurePosixPath(path.lstrip("/"))
        # A container may see its own group as the root, so that the path does not exist there.
        for folder in (group, *group.parents):
            quota = read(root / folder)
            if quota is not None:
                yield quota


def _quota(folder: Path) -> float | None:
    """Return the quota of a group of version 2, whose file is "max 100000" or "150000 100000"."""
    try:
        quota, period = (folder / "cpu.max").read_text().split()
    except (OSError, ValueError):
        return None
    return None if quota == "max" else int(quota) / int(period)


def _quota_of_version_1(folder: Path) -> float | None:
    """Return the quota of a group of version 1, in which −1 is no limit."""
    try:
        quota = int((folder / "cpu.cfs_quota_us").read_text())
        period = int((folder / "cpu.cfs_period_us").read_text())
    except (OSError, ValueError):
        return None
    return quota / period if quota > 0 and period > 0 else None
