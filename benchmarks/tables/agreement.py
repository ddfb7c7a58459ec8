"""Tables of `benchmarks.agreement`."""

from typing import Any

import numpy as np

from benchmarks.tables.markdown import table


def libraries(results: dict[str, Any]) -> str:
    """Return what runs cost and reach, and how well they agree, on every data set."""
    header = (
        "data", "k", "factorizations of", "runs", "CPU seconds per run", "× cheaper",
        "silhouette of ten runs, mean ± spread", "mean error of runs",
    )  # fmt: skip
    rows = []
    for name, by_k in results["data"].items():
        for k, by_library in by_k.items():
            peer = by_library["scikit-learn"]
            for library, found in by_library.items():
                rows.append((name, k, library, *_cells(found, peer)))
    return table(header, rows)


def _cells(found: dict[str, Any], peer: dict[str, Any]) -> tuple[object, ...]:
    seconds, sets = found["cpu seconds of a run"], np.array(found["silhouettes"])
    cheaper = peer["cpu seconds of a run"] / seconds
    return (
        found["runs"],
        f"{seconds:.2f}",
        "" if found is peer else f"{cheaper:.1f}",
        f"{sets.mean():.3f} ± {sets.std():.3f}",
        f"{np.mean(found['errors']) / 1e6:.4f} M",
    )
