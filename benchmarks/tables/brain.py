"""Tables of `benchmarks.brain`."""

from statistics import mean, median
from typing import Any

from benchmarks.tables.markdown import conditions, size, table


def setting(results: dict[str, Any]) -> str:
    """Return the machine."""
    return conditions(results["machine"] | {"threads": 1}, {})


def data(results: dict[str, Any]) -> str:
    """Return the sizes of the data."""
    header = ("data", "runs", "scans of the two halves", "voxels in the mask", "maps")
    return table(
        header,
        (
            (
                name,
                found["runs"],
                " and ".join(map(size, found["scans"])),
                size(found["voxels"]),
                found["k"],
            )
            for name, found in results["data"].items()
        ),
    )


def comparison(results: dict[str, Any]) -> str:
    """Return time, memory, explained variance and stability of all estimators."""
    header = (
        "data", "estimator", "CPU seconds", "memory", "density of maps",
        "held-out explained variance", "same maps with another seed",
        "same maps from the other half", "networks found",
    )  # fmt: skip
    rows = (
        (
            name,
            library,
            f"{median(row['cpu_seconds']):.1f}",
            f"{median(row['bytes']) / 2**20:.0f} MiB",
            f"{100 * mean(row['density']):.1f} %",
            f"{100 * mean(row['held-out']):.1f} %",
            f"{row['seeds']:.2f}",
            f"{row['halves']:.2f}",
            _networks(row, found["k"]),
        )
        for name, found in results["data"].items()
        for library, row in found["libraries"].items()
    )
    return table(header, rows)


def equal_density(results: dict[str, Any]) -> str:
    """Return what maps explain of the other half, once all are cut to the same density."""
    rows, densities = [], []
    for name, found in results["data"].items():
        for library, row in found["libraries"].items():
            at = row["held-out at density"]
            densities = list(at)
            rows.append((name, library, *(_percent(at[density]) for density in densities)))
    header = (
        "data",
        "estimator",
        *(f"{100 * float(density):g} % of voxels" for density in densities),
    )
    return table(header, rows)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def _networks(row: dict[str, Any], k: int) -> str:
    if "networks found" not in row:
        return "–"
    return f"{mean(row['networks found']):.1f} of {k}"
