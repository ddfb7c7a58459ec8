"""Tables of `benchmarks.missing`."""

from typing import Any

import numpy as np

from benchmarks.tables.markdown import conditions, table


def setting(results: dict[str, Any]) -> str:
    """Return the machine."""
    return conditions(results["machine"], {"threads used": 1})


def planted(results: dict[str, Any]) -> str:
    """Return errors on unknown entries, with seconds."""
    found = results["planted"]
    names = next(iter(found.values()))
    return table(
        ("unknown", *names),
        (
            (f"{100 * float(share):g} %", *(_error_and_time(row, 3) for row in rows.values()))
            for share, rows in found.items()
        ),
    )


def ratings(results: dict[str, Any]) -> str:
    """Return RMSE on held-out ratings that were planted, with seconds."""
    return _ratings("noise", results["ratings"])


def files(results: dict[str, Any]) -> str:
    """Return the same for real ratings."""
    return _ratings("ratings", results["files"])


def _ratings(kind: str, found: dict[str, Any]) -> str:
    methods = [name for name in next(iter(found.values())) if name != "offsets"]
    return table(
        (kind, "k", "offsets alone", *methods),
        (
            (
                *name.split(", "),
                f"{np.mean(rows['offsets']):.4f}",
                *(_error_and_time(rows[method], 4) for method in methods),
            )
            for name, rows in found.items()
        ),
    )


def rules(results: dict[str, Any]) -> str:
    """Return the RMSE after every epoch of rules for the dictionary update."""
    found = results["rules"]
    n_epochs = len(next(iter(found.values())))
    return table(
        ("statistics", *(f"epoch {n + 1}" for n in range(n_epochs))),
        ((name, *(f"{error:.4f}" for error in errors)) for name, errors in found.items()),
    )


def epochs(results: dict[str, Any]) -> str:
    """Return seconds per known entry, relative to data without unknown entries."""
    found = results["epochs"]
    shares = next(iter(found.values()))["ratios"]
    return table(
        ("p", "k", "nothing unknown", *(_words(share) for share in shares)),
        (
            (
                *name.split(", "),
                f"{row['nanoseconds']:.1f} ns",
                *(f"{ratio:.1f} ×" for ratio in row["ratios"].values()),
            )
            for name, row in found.items()
        ),
    )


STAGES = ("load", "products", "Gram matrices", "codes", "C of features", "dictionary")
"""Stages of an epoch that are timed, in order."""


def stages(results: dict[str, Any]) -> str:
    """Return nanoseconds per known entry by stage of an epoch."""
    rows = []
    for name, row in results["stages"].items():
        p, k, share = name.split(", ")
        parts = [row.get(stage, 0.0) for stage in STAGES]
        numbers = (*parts, row["all"] - sum(parts), row["all"])
        rows.append((p, k, f"{100 * float(share):g} %", *(f"{x:.1f}" for x in numbers)))
    return table(("p", "k", "unknown", *STAGES, "rest", "all"), rows)


def sweeps(results: dict[str, Any]) -> str:
    """Return nanoseconds per known entry of an epoch with ridge codes, and of a sweep of ALS."""
    found = results["epochs"]
    shares = next(iter(found.values()))["sweeps"]
    return table(
        ("p", "k", *(f"{_words(share)}: somf, ALS" for share in shares)),
        (
            (*name.split(", "), *(f"{a:.0f} ns, {b:.0f} ns" for a, b in row["sweeps"].values()))
            for name, row in found.items()
        ),
    )


def inpainting(results: dict[str, Any]) -> str:
    """Return the PSNR of lost values of a scene."""
    found = {name: value for name, value in results["inpainting"].items() if name != "lost"}
    return table(tuple(found), [tuple(f"{value:.1f} dB" for value in found.values())])


def _words(share: str) -> str:
    number, _, kind = share.partition(", ")
    return f"{100 * float(number):g} % unknown{f' ({kind})' if kind else ''}"


def _error_and_time(row: dict[str, list[float]], digits: int) -> str:
    """Return the mean error with its spread over seeds, and the median of the seconds."""
    errors = row["errors"]
    spread = np.ptp(errors) / 2
    return f"{np.mean(errors):.{digits}f} ± {spread:.{digits}f}, {np.median(row['seconds']):.1f} s"
