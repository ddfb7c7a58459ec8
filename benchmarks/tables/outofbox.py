"""Tables of `benchmarks.outofbox`."""

from math import inf
from statistics import median
from typing import Any

from benchmarks.tables.markdown import change, conditions, one_row, size, table

Ends = dict[str, list[Any]]
"""The results of a library, one per seed."""


def setting(results: dict[str, Any]) -> str:
    """Return the machine, the number of seeds, and what others used of the machine."""
    sets = results["data"].values()
    others = median(found["others"] for found in sets)
    n_seeds = max(len(found["libraries"]["somf"]["objective"]) for found in sets)
    of_peers = max(len(row["objective"]) for found in sets for row in _peers(found).values())
    counts = {"seeds of somf": n_seeds, "seeds of peers": of_peers}
    return conditions(
        results["machine"], counts | {"share of the cores used by others": f"{others:.0%}"}
    )


def wins(results: dict[str, Any]) -> str:
    """Return how often somf reaches the objectives of its peers, and the best of them."""
    sets = results["data"].values()
    rows = [row for found in sets for row in _peers(found).values()]
    level = sum(_excess(found) <= _spread(_best_peer(found)[1]) for found in sets)
    return one_row(
        {
            "fits of peers": len(rows),
            "reached by the median of our fits": sum(
                _time(row, "cpu_seconds") < inf for row in rows
            ),
            "reached with every seed": sum(None not in row["somf cpu_seconds"] for row in rows),
            "reached sooner, in CPU time": sum(_is_sooner(row, "cpu_seconds") for row in rows),
            "reached sooner, in wall time": sum(_is_sooner(row, "wall_seconds") for row in rows),
            "data sets": len(sets),
            "somf at the end not worse than the best peer": level,
        }
    )


def finals(results: dict[str, Any]) -> str:
    """Return the objective at the end of somf and of its best peer."""
    rows = []
    for name, found in results["data"].items():
        ours, (peer, best) = found["libraries"]["somf"], _best_peer(found)
        shape = " × ".join(map(size, found["shape"])) + (" CSR" if found["is sparse"] else "")
        rows.append(
            (
                name,
                shape,
                f"{found['problem']}({found['k']})",
                _number(ours["objective"]),
                _seconds(ours["cpu_seconds"]),
                peer,
                _number(best["objective"]),
                _seconds(best["cpu_seconds"]),
                change(_excess(found), 2),
                _per_cent(_spread(ours)),
                _per_cent(_spread(best)),
            )
        )
    header = (
        "data", "n × p", "problem", "somf", "CPU s", "best peer", "its objective", "CPU s",
        "somf relative to it", "spread of somf", "spread of the peer",
    )  # fmt: skip
    return table(header, rows)


def peers(results: dict[str, Any]) -> str:
    """Return every fit of a peer, and when somf reaches its objective."""
    header = (
        "data", "peer", "objective", "CPU s", "somf gets there: CPU s",
        "× sooner, CPU time", "× sooner, wall time",
    )  # fmt: skip
    rows = (
        (
            name,
            peer,
            _number(row["objective"]),
            _seconds(row["cpu_seconds"]),
            _reached(row),
            _sooner(row, "cpu_seconds"),
            _sooner(row, "wall_seconds"),
        )
        for name, found in results["data"].items()
        for peer, row in _peers(found).items()
    )
    return table(header, rows)


def _peers(found: dict[str, Any]) -> dict[str, Ends]:
    return {name: row for name, row in found["libraries"].items() if name != "somf"}


def _best_peer(found: dict[str, Any]) -> tuple[str, Ends]:
    return min(_peers(found).items(), key=lambda item: median(item[1]["objective"]))


def _excess(found: dict[str, Any]) -> float:
    """Return how far the objective of somf is above that of the best peer, relative to it."""
    _, best = _best_peer(found)
    return float(median(found["libraries"]["somf"]["objective"]) / median(best["objective"]) - 1)


def _spread(row: Ends) -> float:
    """Return maximum minus minimum over seeds, relative to the median."""
    return float((max(row["objective"]) - min(row["objective"])) / median(row["objective"]))


def _time(row: Ends, clock: str) -> float:
    """Return when somf reaches the objective, as a median over its seeds."""
    return float(median(inf if time is None else time for time in row[f"somf {clock}"]))


def _is_sooner(row: Ends, clock: str) -> bool:
    return _time(row, clock) < median(row[clock])


def _reached(row: Ends) -> str:
    times, total = (
        [t for t in row["somf cpu_seconds"] if t is not None],
        len(row["somf cpu_seconds"]),
    )
    if not times:
        return "never"
    return _seconds(times) + (f", {len(times)} of {total} seeds" if len(times) < total else "")


def _sooner(row: Ends, clock: str) -> str:
    time = _time(row, clock)
    if time == inf:
        return "–"
    ratio = median(row[clock]) / time
    return size(ratio) if ratio >= 10 else f"{ratio:.2g}"


def _number(values: list[float]) -> str:
    return f"{median(values):.5g}"


def _seconds(values: list[float]) -> str:
    return f"{median(values):.2g}" if median(values) < 10 else f"{median(values):.0f}"


def _per_cent(share: float) -> str:
    return f"{100 * share:.2f} %"
