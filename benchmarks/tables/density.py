"""Tables of `benchmarks.density`."""

from typing import Any

from benchmarks.tables.markdown import change, table


def misses(results: dict[str, Any]) -> str:
    """Return the relative error of densities."""
    rows = results["fits"]
    requested = [float(density) for density in rows[0]["densities"]]
    return table(
        ("data", "fit", *(f"{100 * density:.0f} % requested" for density in requested)),
        (
            (
                f"{row['data']}, k = {row['k']}",
                f"r = {row['reduction']}, {row['epochs']} epoch{'s' * (row['epochs'] > 1)}",
                *(change(got / float(d) - 1, 0) for d, got in row["densities"].items()),
            )
            for row in rows
        ),
    )
