"""Tables of `benchmarks.tasks`."""

from collections.abc import Sequence
from statistics import median
from typing import Any

from benchmarks.tables.markdown import conditions, size, table


def setting(results: dict[str, Any]) -> str:
    """Return the machine and the number of seeds."""
    rows = next(iter(results["unmixing"].values()))["libraries"]["somf"]
    return conditions(results["machine"], {"seeds": len(rows["quality"])})


def denoising(results: dict[str, Any]) -> str:
    """Return decibels and times of all libraries on the photographs."""
    rows: list[Sequence[object]] = []
    for name, found in results["denoising"].items():
        about = [name, size(found["samples"]), found["k"], _range(found["noisy"], 2)]
        rows += _rows(about, found["libraries"], 2)
    header = ("photograph", "patches", "atoms", "PSNR with noise", "library", "PSNR without, dB")
    return table((*header, *CLOCKS), rows)


def unmixing(results: dict[str, Any]) -> str:
    """Return errors and times of all libraries on the scenes."""
    rows: list[Sequence[object]] = []
    for name, found in results["unmixing"].items():
        rows += _rows([name, size(found["samples"]), found["k"]], found["libraries"], 4)
    return table(("scene", "pixels", "spectra", "library", "error", *CLOCKS), rows)


CLOCKS = ("CPU seconds", "CPU seconds of somf until as good")
"""The columns of times."""


def _rows(about: list[object], libraries: dict[str, Any], digits: int) -> list[Sequence[object]]:
    """Return a row for every library; the first has also what it is about."""
    rows = []
    for i, (library, found) in enumerate(libraries.items()):
        soon = found["somf cpu_seconds"]
        rows.append(
            (
                *(about if i == 0 else [""] * len(about)),
                library,
                _range(found["quality"], digits),
                _range(found["cpu_seconds"], 1),
                "" if library == "somf" else "–" if None in soon else _range(soon, 2),
            )
        )
    return rows


def _range(values: Sequence[float], digits: int) -> str:
    """Return the median of several values and, in parentheses, their range."""
    middle, low, high = (f"{x:.{digits}f}" for x in (median(values), min(values), max(values)))
    return middle if low == high else f"{middle} ({low} to {high})"
