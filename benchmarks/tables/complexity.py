"""Tables of `benchmarks.complexity`."""

from typing import Any

from benchmarks.tables.markdown import conditions, size, table

STAGES = ("load", "regression", "codes", "surrogate", "dictionary")
"""The stages that allocate memory."""


def setting(results: dict[str, Any]) -> str:
    """Return the machine and the problem."""
    problem = {name: size(results[name]) for name in ("p", "k", "n", "batch")}
    return conditions(results["machine"], problem)


def memory(results: dict[str, Any]) -> str:
    """Return megabytes: persistent arrays, temporary memory of stages, and peaks."""
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
