"""Tables of `benchmarks.cnmf`."""

from typing import Any

import numpy as np

from benchmarks.tables.markdown import conditions, table


def setting(results: dict[str, Any]) -> str:
    """Return the conditions of the measurement."""
    return conditions(
        results["machine"], {"cells": f"{results['cells']:,}", "runs of each k": results["runs"]}
    )


def libraries(results: dict[str, Any]) -> str:
    """Return what cNMF needs and reaches with each library."""
    return table(
        (
            "k",
            "factorizations of",
            "CPU seconds per run",
            "× cheaper",
            "silhouette",
            "error of the consensus",
            "errors of single runs, mean (best to worst)",
        ),
        (
            _row(k, library, by_library, results["runs"])
            for k, by_library in results["programs"].items()
            for library in by_library
        ),
    )


def _row(k: str, library: str, by_library: dict[str, Any], n_runs: int) -> tuple[str, ...]:
    found, peer = by_library[library], by_library["scikit-learn"]
    errors = np.array(found["errors of runs"]) / 1e6
    return (
        k,
        library,
        f"{found['cpu seconds'] / n_runs:.2f}",
        "" if found is peer else f"{peer['cpu seconds'] / found['cpu seconds']:.1f}",
        f"{found['silhouette']:.3f}",
        f"{found['error'] / 1e6:.4f} M",
        f"{errors.mean():.4f} M ({errors.min():.4f} to {errors.max():.4f})",
    )
