"""What is said of `benchmarks.surrogates`."""

from typing import Any

from benchmarks.tables.markdown import paragraph, table

EPOCHS = (0.5, 1, 1.5, 2)
ROUNDING = 1e-14


def toy(results: dict[str, Any]) -> str:
    """Return stationarity gaps on the toy problem."""
    gaps, epochs = results["toy"]["gaps"], results["toy"]["epochs"]
    surrogates = next(iter(gaps.values()))
    return table(
        ("codes", *(f"{surrogate}, {n} epochs" for surrogate in surrogates for n in epochs)),
        (
            (codes, *(_gap(gap) for at in by_surrogate.values() for gap in at))
            for codes, by_surrogate in gaps.items()
        ),
    )


def _gap(gap: float) -> str:
    return "rounding" if gap < ROUNDING else f"{gap:.0e}"


def planted(results: dict[str, Any]) -> str:
    """Return objectives of a dictionary that can be found."""
    incremental, online = (results["planted"][name] for name in ("incremental", "online"))
    return paragraph(
        "*Planted dictionary, 2,000 samples, 20 epochs, r = 2* (p = 40, k = 12, λ = 0.05, exact "
        f"codes, three seeds): the objective is {min(incremental):.4f} to {max(incremental):.4f} "
        f"with the incremental surrogate, {min(online):.4f} to {max(online):.4f} with online "
        "weights."
    )


def scene(results: dict[str, Any]) -> str:
    """Return objectives on Indian Pines every half epoch."""
    return table(
        ("codes", "surrogate", "before", *(f"{n:g} epochs" for n in EPOCHS)),
        (
            (
                row["code_estimator"],
                row["surrogate"],
                *(f"{objective:.5f}" for objective in _at(row, (0, *EPOCHS))),
            )
            for row in results["Indian Pines"]
        ),
    )


def _at(row: dict[str, Any], epochs: tuple[float, ...]) -> list[float]:
    """Return the objectives closest to some moments."""
    pairs = list(zip(row["epochs"], row["objectives"], strict=True))
    return [min(pairs, key=lambda pair: abs(pair[0] - moment))[1] for moment in epochs]
