"""What is said of `benchmarks.scaling`."""

from typing import Any

import numpy as np
from scipy.optimize import nnls

from benchmarks.tables.markdown import machine, paragraph, size, table

STAGES = ("load", "regression", "codes", "surrogate", "dictionary", "total")


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


def large_k(results: dict[str, Any]) -> str:
    """Return what many atoms cost, and what a strong reduction leaves."""
    center, k, r = results["center"], results["sweeps"]["k"], results["sweeps"]["r"]
    most, eight = k["milliseconds"][-1], r["milliseconds"][r["values"].index(8)]
    return paragraph(
        f"The rest is at p = {size(center['p'])}, k = {center['k']}, n = {size(center['n'])}, "
        f"batches of {center['batch']} and r = {center['r']}. In k, cost is on its way to k², that "
        f"of D C and of DᵀD; of the {most['total']:.0f} ms for k = {k['values'][-1]}, "
        f"{most['dictionary']:.0f} ms are the dictionary update. Small batches pay for the "
        "dictionary update, which does not depend on them. In r, what is left at 8 is the update "
        f"of all of B ({eight['surrogate']:.1f} ms) and reading the samples "
        f"({eight['load']:.1f} ms), neither of which subsampling reduces."
    )


def stages(results: dict[str, Any]) -> str:
    """Return milliseconds of every stage against r."""
    sweep = results["sweeps"]["r"]
    total = sweep["milliseconds"][0]["total"]
    return table(
        ("r", *STAGES, "× r = 1"),
        (
            (r, *(f"{times[stage]:.1f}" for stage in STAGES), f"{total / times['total']:.1f}")
            for r, times in zip(sweep["values"], sweep["milliseconds"], strict=True)
        ),
    )


def growth(results: dict[str, Any]) -> str:
    """Return what is constant, linear in p and linear in q."""
    return table(
        ("stage", "constant, ms", f"ms per {size(results['center']['p'])} of p", "of q", "error"),
        (
            (stage, *(f"{c:.2f}" for c in coefficients), f"{100 * error:.0f} %")
            for stage in STAGES
            for coefficients, error in (_fit(results, stage),)
        ),
    )


def what_remains(results: dict[str, Any]) -> str:
    """Return the share of what subsampling does not reduce."""
    sweep = results["sweeps"]["r"]
    by_r = dict(zip(sweep["values"], sweep["milliseconds"], strict=True))
    shares = ", ".join(
        f"{100 * (t['surrogate'] + t['load']) / t['total']:.0f} % at r = {r}"
        for r, t in by_r.items()
        if r in (1, 4, 8, 32)
    )
    (constant, of_p, _), _ = _fit(results, "total")
    most = by_r[1]["total"] / (constant + of_p)
    return paragraph(
        f"The update of B and loading, which see all of p, take {shares}. What does not depend on "
        f"q is {constant + of_p:.1f} ms at p = {size(results['center']['p'])}: an iteration cannot "
        f"become more than {most:.1f} times as fast as at r = 1, however large r is."
    )


def times_line(results: dict[str, Any]) -> str:
    """Return where and at what this was measured."""
    center = results["center"]
    return paragraph(
        f"Milliseconds of an iteration at p = {size(center['p'])}, k = {center['k']}, batches of "
        f"{center['batch']}; {machine(results['machine'])}."
    )


def _fit(results: dict[str, Any], stage: str) -> tuple[list[float], float]:
    """Return non-negative c₀, c_p, c_q of c₀ + c_p p + c_q q, and the median relative error.

    Both sweeps, over p and over r, count; p and q are in units of the p at the center.
    """
    center, sweeps = results["center"], results["sweeps"]
    p = np.array([*sweeps["p"]["values"], *(center["p"] for _ in sweeps["r"]["values"])])
    r = np.array([*(center["r"] for _ in sweeps["p"]["values"]), *sweeps["r"]["values"]])
    times = [*sweeps["p"]["milliseconds"], *sweeps["r"]["milliseconds"]]
    t = np.array([milliseconds[stage] for milliseconds in times])
    terms = np.stack([np.ones(len(p)), p / center["p"], p / r / center["p"]], axis=1)
    coefficients, _ = nnls(terms / t[:, None], np.ones(len(t)))
    return coefficients.tolist(), float(np.median(np.abs(terms @ coefficients / t - 1)))
