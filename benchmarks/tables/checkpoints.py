"""What is said of `benchmarks.checkpoints`."""

from typing import Any

from benchmarks.tables.markdown import machine, paragraph, size, table


def costs(results: dict[str, Any]) -> str:
    """Return size, and the time of writing and reading."""
    return table(
        ("", "MB", "writing, s", "reading, s"),
        (
            (name, size(case["MB"]), f"{case['writing']:.2f}", f"{case['reading']:.2f}")
            for name, case in results["cases"].items()
        ),
    )


def machine_line(results: dict[str, Any]) -> str:
    """Return where this was measured."""
    return paragraph(f"`python -m benchmarks.checkpoints`, on {machine(results['machine'])}.")
