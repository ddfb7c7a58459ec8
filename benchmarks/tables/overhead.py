"""Tables of `benchmarks.overhead`."""

from typing import Any

from benchmarks.tables.markdown import conditions, table


def setting(results: dict[str, Any]) -> str:
    """Return the machine, and the size of an iteration."""
    return conditions(results["machine"] | {"threads": 1}, {"batch": 16, "p": 20, "k": 4})


def iterations(results: dict[str, Any]) -> str:
    """Return the time of an iteration of every kind of fit."""
    return table(
        ("fit", "µs per iteration"),
        (
            (name, f"{row['median']:.0f} ({row['low']:.0f} to {row['high']:.0f})")
            for name, row in results["fits"].items()
        ),
    )
