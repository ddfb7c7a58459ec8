"""What is said of `benchmarks.complexity`."""

from typing import Any

from benchmarks.tables.markdown import machine, paragraph, size, table

STAGES = ("load", "regression", "codes", "surrogate", "dictionary", "total")


def machine_line(results: dict[str, Any]) -> str:
    """Return where this was measured, and on what."""
    return paragraph(
        f"Measured on: {machine(results['machine'])}. k = {results['k']}, batches of "
        f"{results['batch']}, averaged codes of samples that come again, float32."
    )


def times(results: dict[str, Any]) -> str:
    """Return milliseconds of every stage against r."""
    by_r = _by_reduction(results)
    total = by_r[1]["total"]
    return table(
        ("r", *STAGES, "× r = 1"),
        (
            (r, *(f"{times[stage]:.1f}" for stage in STAGES), f"{total / times['total']:.1f}")
            for r, times in by_r.items()
        ),
    )


def growth(results: dict[str, Any]) -> str:
    """Return what is constant, linear in p and linear in q."""
    unit = size(results["unit of p"])
    return table(
        (
            "stage",
            "constant, ms",
            f"ms per {unit} features in p",
            "in q",
            "median error",
        ),
        (
            (
                stage,
                *(f"{results['growth'][stage][name]:.2f}" for name in ("constant", "p", "q")),
                f"{results['growth'][stage]['median error']:.0%}".replace("%", " %"),
            )
            for stage in STAGES
        ),
    )


def what_remains(results: dict[str, Any]) -> str:
    """Return the share of what subsampling does not reduce."""
    by_r, stages = _by_reduction(results), results["growth"]
    fixed = sum(stages[stage]["p"] + stages[stage]["constant"] for stage in STAGES[:-1])
    shares = ", ".join(
        f"{(by_r[r]['surrogate'] + by_r[r]['load']) / by_r[r]['total']:.0%} at r = {r}"
        for r in (1, 4, 12, 24)
    ).replace("%", " %")
    most = by_r[1]["total"] / fixed
    return paragraph(
        f"The update of B and loading, which see all of p, are {shares}. What does not depend on q "
        f"adds up to {fixed:.1f} ms at p = {size(results['unit of p'])}, so that an iteration "
        f"cannot become more than {most:.1f} times as fast as at r = 1, however large r is."
    )


def memory(results: dict[str, Any]) -> str:
    """Return what is kept, and what stages take beside it."""
    stages = STAGES[:-1]
    return table(
        ("r", "kept: formula", "kept: measured", *stages, "peak"),
        (
            (
                r,
                f"{of['formula']:.1f}",
                f"{of['kept']:.1f}",
                *(f"{of['stages'][stage]:.1f}" for stage in stages),
                f"{max(of['peak at the start'], of['peak of iterations']):.1f}",
            )
            for r, of in results["memory"].items()
        ),
    )


def _by_reduction(results: dict[str, Any]) -> dict[int, dict[str, float]]:
    """Return milliseconds by stage for every r, at the p in the middle."""
    return {
        case["r"]: case["milliseconds"]
        for case in results["cases"]
        if case["p"] == results["unit of p"]
    }
