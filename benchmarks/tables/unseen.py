"""Tables of `benchmarks.unseen`."""

from statistics import median
from typing import Any

from benchmarks.tables.markdown import change, conditions, size, table

Ends = dict[str, list[float]]
"""The results of a library, one per seed."""


def setting(results: dict[str, Any]) -> str:
    """Return the conditions."""
    sets = results["data"].values()
    n_seeds = max(len(found["libraries"]["somf"]["objective"]) for found in sets)
    return conditions(results["machine"] | {"threads": 1}, {"seeds": n_seeds})


def finals(results: dict[str, Any]) -> str:
    """Return the objective at the end of somf and of its best peer."""
    rows = []
    for name, found in results["data"].items():
        libraries = dict(found["libraries"])
        ours = libraries.pop("somf")
        if not libraries:
            continue
        peer, best = min(libraries.items(), key=lambda item: median(item[1]["objective"]))
        ratio = median(ours["objective"]) / median(best["objective"])
        rows.append(
            (
                name,
                " × ".join(map(size, found["shape"])),
                f"{found['problem']}({found['k']}, alpha={found['alpha']:g})",
                f"{median(ours['objective']):.5g}",
                f"{median(ours['cpu_seconds']):.2g}",
                peer,
                f"{median(best['cpu_seconds']):.2g}",
                change(ratio - 1, 2),
                _spread(ours),
                _spread(best),
            )
        )
    header = (
        "data", "n × p", "problem", "somf", "CPU s", "best peer", "CPU s",
        "somf relative to it", "spread of somf", "spread of the peer",
    )  # fmt: skip
    return table(header, rows)


def ends(results: dict[str, Any]) -> str:
    """Return what passes over all samples have changed."""
    rows = []
    for name, found in results["data"].items():
        if "before" not in found:
            continue
        before, now = found["before"], found["libraries"]["somf"]
        columns = ("objective", "training objective")
        rows.append(
            (
                name,
                f"{median(before['cpu_seconds']):.2g}",
                f"{median(now['cpu_seconds']):.2g}",
                *(change(median(now[c]) / median(before[c]) - 1, 2) for c in columns),
                _spread(before),
                _spread(now),
            )
        )
    header = (
        "data", "CPU s before", "CPU s now", "held-out objective", "training objective",
        "spread before", "spread now",
    )  # fmt: skip
    return table(header, rows)


def _spread(found: Ends) -> str:
    """Return the difference of the extreme held-out objectives, relative to the median."""
    objectives = found["objective"]
    return f"{100 * (max(objectives) - min(objectives)) / median(objectives):.2f} %"
