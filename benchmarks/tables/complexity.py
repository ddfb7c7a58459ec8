"""What is said of `benchmarks.complexity`."""

from typing import Any

from benchmarks.tables.markdown import machine, paragraph, size, table

STAGES = ("load", "regression", "codes", "surrogate", "dictionary")


def memory(results: dict[str, Any]) -> str:
    """Return what is kept, and what stages take beside it."""
    return table(
        ("r", "kept: formula", "kept: measured", *STAGES, "peak of iterations", "of the start"),
        (
            (
                r,
                f"{of['formula']:.1f}",
                f"{of['kept']:.1f}",
                *(f"{of['stages'][stage]:.1f}" for stage in STAGES),
                f"{of['peak of iterations']:.1f}",
                f"{of['peak at the start']:.1f}",
            )
            for r, of in results["memory"].items()
        ),
    )


def machine_line(results: dict[str, Any]) -> str:
    """Return where this was measured, and on what."""
    return paragraph(
        f"Megabytes in float32 at p = {size(results['p'])}, k = {results['k']}, "
        f"n = {results['n']}, batches of {results['batch']}; {machine(results['machine'])}."
    )
