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
    """Return RMSE on held-out ratings, with seconds."""
    return table(
        ("noise", "k", "offsets alone", "somf", "ALS"),
        (
            (
                *name.split(", "),
                f"{np.mean(rows['offsets']):.4f}",
                _error_and_time(rows["somf"], 4),
                _error_and_time(rows["ALS"], 4),
            )
            for name, rows in results["ratings"].items()
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
