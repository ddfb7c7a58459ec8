"""The facts about a machine that go with every measurement, and what other processes used of it."""

import json
import os
import platform
from datetime import date
from pathlib import Path
from typing import Any

import numba
import numpy as np
import scipy
import sklearn
from threadpoolctl import threadpool_info

from somf.kernels.cpu.threads import thread_count
from somf.persistence.provenance import provenance_of


def seconds_of_others() -> float:
    """Return the CPU seconds, summed over cores, that all other processes have used so far.

    Time that the hypervisor took from a virtual machine counts too. Zero where /proc/stat is
    missing.
    """
    stat = Path("/proc/stat")
    if not stat.exists():
        return 0.0
    user, nice, system, _, _, irq, softirq, steal = map(int, stat.read_text().split()[1:9])
    busy = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
    return busy - sum(os.times()[:2])


def write_results(path: Path, results: dict[str, Any]) -> None:
    """Write results as JSON, together with the facts about this machine."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": facts()} | results, indent=1) + "\n")


def facts() -> dict[str, Any]:
    """Return processor, threads, date and versions, which a reader needs to judge a number."""
    cpu = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        models = [x for x in cpuinfo.read_text().splitlines() if x.startswith("model name")]
        cpu = models[0].split(":")[1].strip() if models else cpu
    blas = [x for x in threadpool_info() if x["user_api"] == "blas"]
    return {
        "date": date.today().isoformat(),
        "cpu": cpu,
        "threads": thread_count(None),
        "blas": sorted({f"{x['internal_api']} {x['version']} {x['architecture']}" for x in blas}),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "numba": numba.__version__,
        "somf": provenance_of(())["somf"],
    }
