"""The facts of a machine that go with every measurement, and whether others used it too."""

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

import somf


def seconds_of_others() -> float:
    """Return the CPU seconds, of all cores, that all but this process have had so far.

    Time that a virtual machine was denied counts too. Zero where the system does not say.
    """
    stat = Path("/proc/stat")
    if not stat.exists():
        return 0.0
    user, nice, system, _, _, irq, softirq, steal = map(int, stat.read_text().split()[1:9])
    busy = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
    return busy - sum(os.times()[:2])


def facts() -> dict[str, Any]:
    """Return what a reader needs to judge a number."""
    cpu = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        models = [x for x in cpuinfo.read_text().splitlines() if x.startswith("model name")]
        cpu = models[0].split(":")[1].strip() if models else cpu
    blas = [x for x in threadpool_info() if x["user_api"] == "blas"]
    return {
        "date": date.today().isoformat(),
        "cpu": cpu,
        "threads": numba.config.NUMBA_NUM_THREADS,
        "blas": sorted({f"{x['internal_api']} {x['version']} {x['architecture']}" for x in blas}),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "numba": numba.__version__,
        "somf": somf.__version__,
    }
