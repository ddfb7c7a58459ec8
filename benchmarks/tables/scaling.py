"""What is said of `benchmarks.scaling`."""

from typing import Any

from benchmarks.tables.markdown import paragraph, size, table


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
