"""Tables of `benchmarks.everyday`."""

from typing import Any

from benchmarks.tables.markdown import conditions, size, spread, table


def setting(results: dict[str, Any]) -> str:
    """Return the machine."""
    return conditions(results["machine"], {})


def fits(results: dict[str, Any]) -> str:
    """Return one epoch of every library."""
    return _table(results, "fit", "objective", "{:.4f}")


def transforms(results: dict[str, Any]) -> str:
    """Return the time of the codes of all samples, by every library."""
    return _table(results, "transform", "gap", "{:.0e}")


def nmf(results: dict[str, Any]) -> str:
    """Return the time of non-negative codes without a penalty."""
    return _table(results, "transform", "relative error", "{:.5f}")


def _table(results: dict[str, Any], task: str, quality: str, digits: str) -> str:
    return table(
        ("data", "n × p", "library", "seconds", "× somf", quality),
        (
            (
                name,
                " × ".join(map(size, case["shape"])),
                library,
                f"{row['seconds']['median']:.2f}",
                spread(row["times somf"]),
                digits.format(row[quality]),
            )
            for name, case in results["cases"].items()
            for library, row in case.get(task, {}).items()
            if quality in row
        ),
    )
