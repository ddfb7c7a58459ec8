"""Tables of `benchmarks.initial_atoms`."""

from typing import Any

import numpy as np

from benchmarks.tables.markdown import table


def nmf(results: dict[str, Any]) -> str:
    """Return the errors of NMF without a penalty."""
    return _table(results["nmf"])


def penalised(results: dict[str, Any]) -> str:
    """Return the objectives of NMF with a penalty."""
    return _table(results["penalised"])


def dictionary(results: dict[str, Any]) -> str:
    """Return the objectives of dictionary learning."""
    return _table(results["dictionary"])


def _table(found: dict[str, dict[str, list[float]]]) -> str:
    """Return means over seeds with standard deviations."""
    return table(
        ("data", *next(iter(found.values()))),
        (
            (name, *(f"{np.mean(x):.5f} ± {np.std(x):.5f}" for x in by_init.values()))
            for name, by_init in found.items()
        ),
    )
