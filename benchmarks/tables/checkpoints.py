"""Tables of `benchmarks.checkpoints`."""

from typing import Any

from benchmarks.tables.markdown import conditions, size, table


def machine(results: dict[str, Any]) -> str:
    """Return the machine."""
    return conditions(results["machine"], {})


def costs(results: dict[str, Any]) -> str:
    """Return the size of checkpoints, and the time to write and to read them."""
    return table(
        ("", "MB", "writing, s", "reading, s"),
        (
            (name, size(case["MB"]), f"{case['writing']:.2f}", f"{case['reading']:.2f}")
            for name, case in results["cases"].items()
        ),
    )
