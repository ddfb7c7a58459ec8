"""Tables of `benchmarks.overhead`."""

from typing import Any

from benchmarks.tables.markdown import conditions, table


def setting(results: dict[str, Any]) -> str:
    """Return the machine, and the size of an iteration."""
    return conditions(results["machine"] | {"threads": 1}, {"batch": 16, "p": 20, "k": 4})


def iterations(results: dict[str, Any]) -> str:
    """Return the time of an iteration of every kind of fit, and what is left without kernels."""
    rows, has_kernels = results["fits"], all("kernels" in row for row in results["fits"].values())
    header = ("fit", "µs per iteration")
    return table(
        (*header, "of it in compiled kernels", "outside of them") if has_kernels else header,
        (
            (
                name,
                f"{row['median']:.0f} ({row['low']:.0f} to {row['high']:.0f})",
                *_without_kernels(row, has_kernels),
            )
            for name, row in rows.items()
        ),
    )


def _without_kernels(row: dict[str, float], has_kernels: bool) -> tuple[str, ...]:
    if not has_kernels:
        return ()
    return f"{row['kernels']:.0f}", f"{row['median'] - row['kernels']:.0f}"
