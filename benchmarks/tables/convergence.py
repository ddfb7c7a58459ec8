"""Tables of `benchmarks.convergence`."""

from typing import Any

from benchmarks.convergence import FLOOR, RATE
from benchmarks.tables.markdown import table

EPOCHS = (0.5, 1, 1.5, 2)
"""Epochs at which the surrogates are compared."""

COMPARED = 3
"""The r at which the surrogates are compared."""


def gaps(results: dict[str, Any]) -> str:
    """Return the last gaps and their slopes, at the default v."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for x in _all(results):
        if x["v"] == RATE:
            rows.setdefault((x["surrogate"], _codes(x), str(x["r"])), []).append(_gap(x))
    return table(
        ("surrogate", "codes", "r", *results["problems"]),
        ((*setting, *cells) for setting, cells in rows.items()),
    )


def ends(results: dict[str, Any]) -> str:
    """Return the last objectives and distances from OMF, with the incremental surrogate."""
    rows: dict[tuple[str, str], list[str]] = {}
    for x in _all(results):
        if (x["surrogate"], x["v"]) == ("incremental", RATE) and x["r"] != "auto":
            cell = f"{x['objective'][-1]:.5f} ({x['distance'][-1]:.2f})"
            rows.setdefault((_codes(x), str(x["r"])), []).append(cell)
    return table(
        ("codes", "r", *results["problems"]),
        ((*setting, *cells) for setting, cells in rows.items()),
    )


def rates(results: dict[str, Any]) -> str:
    """Return the last gaps with the online surrogate, at several v."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for x in _all(results):
        if x["surrogate"] == "online" and x["r"] != "auto":
            rows.setdefault((_codes(x), str(x["r"]), str(x["v"])), []).append(_gap(x))
    return table(
        ("codes", "r", "v", *results["problems"]),
        ((*setting, *cells) for setting, cells in rows.items()),
    )


def first_epochs(results: dict[str, Any]) -> str:
    """Return objectives after the first epochs."""
    return table(
        ("data", "setting", "epoch 1", "epoch 2", "spread", "training data"),
        (
            (
                name,
                words,
                *(f"{objective:.5f}" for objective in run["held out"]),
                f"{run['spread']:.5f}",
                f"{run['learned from'][-1]:.5f}",
            )
            for name, settings in results["first epochs"].items()
            for words, run in settings.items()
        ),
    )


def surrogates(results: dict[str, Any]) -> str:
    """Return the last gaps and objectives with either surrogate, at r = 3 and the default v."""
    rows: dict[tuple[str, str], list[str]] = {}
    for x in _all(results):
        if (x["r"], x["v"]) == (COMPARED, RATE):
            gap = f"{x['gap'][-1]:.0e}" if x["gap"][-1] > FLOOR else "rounding"
            cell = f"{gap}, {x['objective'][-1]:.5f}"
            rows.setdefault((_codes(x), x["surrogate"]), []).append(cell)
    return table(
        ("codes", "surrogate", *results["problems"]),
        ((*setting, *cells) for setting, cells in sorted(rows.items())),
    )


def surrogates_on_a_scene(results: dict[str, Any]) -> str:
    """Return objectives on Indian Pines every half epoch."""
    return table(
        ("codes", "surrogate", "before", *(f"{n:g} epochs" for n in EPOCHS)),
        (
            (
                row["code_estimator"],
                row["surrogate"],
                *(f"{objective:.5f}" for objective in _at(row, (0, *EPOCHS))),
            )
            for row in results["surrogates"]
        ),
    )


def _at(row: dict[str, Any], epochs: tuple[float, ...]) -> list[float]:
    """Return the recorded objectives closest to some epochs."""
    pairs = list(zip(row["epochs"], row["objectives"], strict=True))
    return [min(pairs, key=lambda pair: abs(pair[0] - epoch))[1] for epoch in epochs]


def _all(results: dict[str, Any]) -> list[dict[str, Any]]:
    return [run for runs in results["problems"].values() for run in runs]


def _codes(run: dict[str, Any]) -> str:
    return "any" if run["r"] == 1 else str(run["estimator"])


def _gap(run: dict[str, Any]) -> str:
    gap = run["gap"][-1]
    return f"{gap:.0e} ({run['slope']:+.1f})" if gap > FLOOR else "rounding"
