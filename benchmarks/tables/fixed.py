"""Tables of `benchmarks.fixed`."""

import math
from collections import defaultdict
from statistics import median
from typing import Any

from benchmarks.fixed import CLOSE
from benchmarks.summaries import first_time
from benchmarks.tables.markdown import conditions, table

Curve = dict[str, Any]
"""A setting, a seed, and objectives after CPU seconds."""


def setting(results: dict[str, Any]) -> str:
    """Return the conditions."""
    curves = [curve for found in results["data"].values() for curve in found]
    n_fixed = len({str(curve["setting"]) for curve in curves if curve["setting"]})
    return conditions(results["machine"] | {"threads": 1}, {"fixed settings": n_fixed})


def times(results: dict[str, Any]) -> str:
    """Return the seconds of the defaults and of the best fixed setting, by data set.

    The objective to be reached is near the median over seeds of what the best setting reaches: with
    one seed alone, the minimum that a fit is drawn to decides.
    """
    rows = []
    for name, curves in results["data"].items():
        by_setting: dict[str, list[Curve]] = defaultdict(list)
        for curve in curves:
            by_setting[_in_words(curve["setting"])].append(curve)
        lowest = min(median(min(c["objective"]) for c in found) for found in by_setting.values())
        seconds = {
            words: median(_time_to((1 + CLOSE) * lowest, curve) for curve in found)
            for words, found in by_setting.items()
        }
        own = seconds.pop("")
        best = min(seconds, key=lambda words: seconds[words])
        n_seeds = len({curve["seed"] for curve in curves})
        fixed = seconds[best]
        rows.append((name, n_seeds, _number(own), best, _number(fixed), _ratio(own, fixed)))
    header = ("data", "seeds", "defaults: CPU s", "best fixed setting", "CPU s", "defaults / fixed")
    return table(header, rows)


def _time_to(target: float, curve: Curve) -> float:
    found = first_time(curve["cpu_seconds"], curve["objective"], target)
    return math.inf if found is None else found


def _in_words(setting: dict[str, Any]) -> str:
    """Return a fixed setting in words; the defaults are empty."""
    if not setting:
        return ""
    r, v = setting["reduction"], setting["learning_rate"]
    return f"r = 1, v = {v}" if r == 1 else f"{setting['code_estimator']}, r = {r}, v = {v}"


def _number(seconds: float) -> str:
    return f"{seconds:.2g}" if math.isfinite(seconds) else "never"


def _ratio(own: float, fixed: float) -> str:
    return f"{own / fixed:.2f}" if math.isfinite(own) and math.isfinite(fixed) else ""
