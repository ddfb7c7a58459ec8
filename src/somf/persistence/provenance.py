"""Where a model comes from: when it was fitted, to which files, with which versions and on what."""

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

LIBRARIES = ("somf", "numpy", "scipy", "scikit-learn", "numba")
"""The libraries whose versions are kept."""

LONGEST = 500
"""The largest number of characters of an entry."""

CPU_INFO = "/proc/cpuinfo"
"""The file in which Linux names the processor."""


def provenance_of(files: Sequence[str]) -> dict[str, str]:
    """Return where a model comes from that is fitted now, on this machine.

    Parameters
    ----------
    files : sequence of str
        The files of the data; empty if it was in memory.

    Returns
    -------
    provenance : dict of str
        ``date``, ``data`` (the names of the files, without their folders), ``machine``, ``python``
        and the versions of libraries.
    """
    found = {"date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")}
    if files:
        found["data"] = _shortened(", ".join(os.path.basename(path) for path in files))
    found |= {"machine": machine(), "python": platform.python_version()}
    return found | {name: library_version(name) for name in LIBRARIES}


@cache
def library_version(library: str) -> str:
    """Return the version of a library; one that is used from its sources may have none.

    To look up five of them takes as long as a fit to a hundred samples.
    """
    try:
        return version(library)
    except PackageNotFoundError:
        return "not installed"


def machine() -> str:
    """Return the processor, its cores and the system, in words; never the name of the machine."""
    n_cores = os.cpu_count() or 1
    cores = f"{n_cores} core{'' if n_cores == 1 else 's'}"
    return f"{_processor()}, {cores}, {platform.system()} {platform.machine()}"


def checked_provenance(given: Any) -> dict[str, str] | None:
    """Return the provenance in a file after a check; older files have none."""
    if given is None:
        return None
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise ValueError("its provenance is not made of texts")
    return {_shortened(name): _shortened(value) for name, value in given.items()}


def _processor() -> str:
    try:
        with open(CPU_INFO, encoding="utf-8", errors="replace") as file:
            for line in file:
                name, _, value = line.partition(":")
                if name.strip() == "model name":
                    return value.strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine()


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
