"""Tables of `benchmarks.forgetting`."""

from collections import defaultdict
from typing import Any

import numpy as np

from benchmarks.forgetting import CHOSEN_ON, OTHERS
from benchmarks.tables.markdown import change, conditions, table

SHOWN = (500, 2_000, 8_000)
"""Samples after which objectives are shown."""


def setting(results: dict[str, Any]) -> str:
    """Return the conditions."""
    n_seeds = len({run["seed"] for runs in results["data"].values() for run in runs})
    return conditions(results["machine"] | {"threads": 1}, {"seeds": n_seeds})


def chosen_on(results: dict[str, Any]) -> str:
    """Return objectives relative to the best v, on data on which the rule was made."""
    return _relative(results, CHOSEN_ON)


def others(results: dict[str, Any]) -> str:
    """Return the same on other data."""
    return _relative(results, OTHERS)


def _relative(results: dict[str, Any], names: tuple[str, ...]) -> str:
    rows = []
    for name in (name for name in names if name in results["data"]):
        found: dict[Any, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        for run in results["data"][name]:
            for seen, objective in zip(run["samples"], run["objective"], strict=True):
                found[run["rate"]][seen].append(objective)
        cells = [name]
        for seen in SHOWN:
            means = {rate: np.mean(by[seen]) for rate, by in found.items() if seen in by}
            best = min((mean for rate, mean in means.items() if rate != "auto"), default=np.nan)
            cells += [change(means[rate] / best - 1, 2) if means else "" for rate in found]
        rows.append(cells)
    labels = ("v = 0.76", "v = 0.85", "v = 0.92", "auto")
    return table(("data", *(f"{label}, {seen:,}" for seen in SHOWN for label in labels)), rows)
