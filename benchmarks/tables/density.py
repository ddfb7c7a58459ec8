"""What is said of `benchmarks.density`."""

from typing import Any

from benchmarks.tables.markdown import table


def misses(results: dict[str, Any]) -> str:
    """Return how far densities are from what was asked for."""
    rows = results["fits"]
    return table(
        ("data", "fit", *(f"{float(asked):.0%} asked" for asked in rows[0]["densities"])),
        (
            (
                f"{row['data']}, k = {row['k']}",
                f"r = {row['reduction']}, {row['epochs']} epoch{'s' * (row['epochs'] > 1)}",
                *(f"{got / float(asked) - 1:+.0%}" for asked, got in row["densities"].items()),
            )
            for row in rows
        ),
    ).replace("%", " %")
