"""Tables of `benchmarks.reduction`."""

from typing import Any

from benchmarks.tables.markdown import table


def seconds(results: dict[str, Any]) -> str:
    """Return the time until the objective is close to the best."""
    reductions = list(next(iter(results["data"].values())))
    return table(
        ("data", *(f"r = {r}" for r in reductions), "auto / fastest of the others"),
        (
            (name, *(_seconds(found[r]["seconds"]) for r in reductions), _ratio(found))
            for name, found in results["data"].items()
        ),
    )


def first_probe(results: dict[str, Any]) -> str:
    """Return the extra cost of codes from a mask at the start."""
    return table(
        ("data", "extra cost of codes from a twelfth of the features"),
        ((name, _range(costs)) for name, costs in results["first probe"].items()),
    )


def _range(costs: list[float]) -> str:
    return f"{min(costs):.2%} to {max(costs):.2%}".replace("%", "\N{NO-BREAK SPACE}%")


def objectives(results: dict[str, Any]) -> str:
    """Return the last objectives."""
    reductions = list(next(iter(results["data"].values())))
    return table(
        ("data", *(f"r = {r}" for r in reductions)),
        (
            (name, *(f"{found[r]['objective']:.5f}" for r in reductions))
            for name, found in results["data"].items()
        ),
    )


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.2f}\N{NO-BREAK SPACE}s"


def _ratio(found: dict[str, Any]) -> str:
    """Return the time of "auto" relative to that of the fastest fixed reduction."""
    arrived = [r for r in found if r != "auto" and found[r]["seconds"] is not None]
    own = found["auto"]
    if not arrived or own["seconds"] is None:
        return "–"
    fastest = min(arrived, key=lambda r: float(found[r]["seconds"]))
    same = ", same iterations" * (own["iterations"] == found[fastest]["iterations"])
    return f"{own['seconds'] / found[fastest]['seconds']:.2f}{same}"
