"""Tables of `benchmarks.scaling`."""

from typing import Any

import numpy as np
from scipy.optimize import nnls

from benchmarks.tables.markdown import conditions, one_row, size, table

STAGES = ("load", "regression", "codes", "surrogate", "dictionary", "total")
"""The stages that take most of the time, and their total."""


def exponents(results: dict[str, Any]) -> str:
    """Return how cost grows with each quantity."""
    return table(
        ("what grows", "from", "to", "ms per iteration", "grows like"),
        (
            (
                name,
                size(sweep["values"][0]),
                size(sweep["values"][-1]),
                f"{sweep['milliseconds'][0]['total']:.1f} to "
                f"{sweep['milliseconds'][-1]['total']:.1f}",
                f"{name}^{sweep['exponent']:.2f}",
            )
            for name, sweep in results["sweeps"].items()
        ),
    )


def stages(results: dict[str, Any]) -> str:
    """Return milliseconds of every stage against r, and the share of the stages linear in p."""
    sweep = results["sweeps"]["r"]
    total = sweep["milliseconds"][0]["total"]
    return table(
        ("r", *STAGES, "× r = 1", "load and surrogate"),
        (
            (
                r,
                *(f"{times[stage]:.1f}" for stage in STAGES),
                f"{total / times['total']:.1f}",
                f"{100 * (times['surrogate'] + times['load']) / times['total']:.0f} %",
            )
            for r, times in zip(sweep["values"], sweep["milliseconds"], strict=True)
        ),
    )


def stages_by_k(results: dict[str, Any]) -> str:
    """Return milliseconds of every stage against k."""
    sweep = results["sweeps"]["k"]
    return table(
        ("k", *STAGES),
        (
            (size(k), *(f"{times[stage]:.1f}" for stage in STAGES))
            for k, times in zip(sweep["values"], sweep["milliseconds"], strict=True)
        ),
    )


def growth(results: dict[str, Any]) -> str:
    """Return the constant part of every stage, and those linear in p and in q."""
    return table(
        ("stage", "constant, ms", f"ms per {size(results['center']['p'])} of p", "of q", "error"),
        (
            (stage, *(f"{c:.2f}" for c in coefficients), f"{100 * error:.0f} %")
            for stage in STAGES
            for coefficients, error in (_fit(results, stage),)
        ),
    )


def limit(results: dict[str, Any]) -> str:
    """Return the time of an iteration at r = 1, and the part of it that does not depend on q."""
    (constant, of_p, _), _ = _fit(results, "total")
    total = results["sweeps"]["r"]["milliseconds"][0]["total"]
    cells = {
        "r = 1, ms": f"{total:.1f}",
        "independent of q, ms": f"{constant + of_p:.1f}",
        "ratio": f"{total / (constant + of_p):.1f}",
    }
    return one_row(cells)


def setting(results: dict[str, Any]) -> str:
    """Return the machine, and the quantities that are fixed while one of them varies."""
    return conditions(results["machine"], {n: size(x) for n, x in results["center"].items()})


def _fit(results: dict[str, Any], stage: str) -> tuple[list[float], float]:
    """Return non-negative c₀, c_p, c_q of c₀ + c_p p + c_q q, and the median relative error.

    It is a fit to both sweeps, over p and over r; p and q are in units of the p at the center.
    """
    center, sweeps = results["center"], results["sweeps"]
    p = np.array([*sweeps["p"]["values"], *(center["p"] for _ in sweeps["r"]["values"])])
    r = np.array([*(center["r"] for _ in sweeps["p"]["values"]), *sweeps["r"]["values"]])
    times = [*sweeps["p"]["milliseconds"], *sweeps["r"]["milliseconds"]]
    t = np.array([milliseconds[stage] for milliseconds in times])
    terms = np.stack([np.ones(len(p)), p / center["p"], p / r / center["p"]], axis=1)
    coefficients, _ = nnls(terms / t[:, None], np.ones(len(t)))
    return coefficients.tolist(), float(np.median(np.abs(terms @ coefficients / t - 1)))
