"""What is said of `benchmarks.density`."""

from typing import Any

from benchmarks.tables.markdown import change, table


def misses(results: dict[str, Any]) -> str:
    """Return how far densities are from what was asked for."""
    rows = results["fits"]
    return table(
        ("data", "fit", *(f"{100 * float(asked):.0f} % asked" for asked in rows[0]["densities"])),
        (
            (
                f"{row['data']}, k = {row['k']}",
                f"r = {row['reduction']}, {row['epochs']} epoch{'s' * (row['epochs'] > 1)}",
                *(change(got / float(asked) - 1, 0) for asked, got in row["densities"].items()),
            )
            for row in rows
        ),
    )
