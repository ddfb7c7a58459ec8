"""Tables of `benchmarks.sparse_pca`."""

from collections.abc import Sequence
from statistics import median
from typing import Any

from benchmarks.tables.markdown import conditions, size, table


def setting(results: dict[str, Any]) -> str:
    """Return the machine and the number of seeds."""
    fit = next(iter(results["data"].values()))["fits"][0]
    return conditions(results["machine"], {"seeds": len(fit["libraries"]["somf"])})


def peers(results: dict[str, Any]) -> str:
    """Return medians of density, error and time of both libraries."""
    rows: list[Sequence[object]] = []
    for name, found in results["data"].items():
        for i, fit in enumerate(found["fits"]):
            shape = " × ".join(map(size, found["shape"]))
            about = [name, shape, found["k"], f"{found['error of PCA']:.3f}"]
            cells: list[object] = about if i == 0 else [""] * len(about)
            theirs, ours = fit["libraries"]["scikit-learn"], fit["libraries"]["somf"]
            for quantity, form in (("density", ".1%"), ("error", ".3f"), ("cpu_seconds", ".1f")):
                cells = [*cells, *(f"{_median(runs, quantity):{form}}" for runs in (theirs, ours))]
            rows.append(cells)
    header = ["data", "samples × features", "atoms", "error of PCA"]
    for quantity in ("density", "error", "CPU s"):
        header += [f"{quantity}: scikit-learn", "somf"]
    return table(header, rows)


def _median(runs: list[dict[str, float]], quantity: str) -> float:
    return median(run[quantity] for run in runs)
