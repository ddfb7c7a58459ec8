"""Tables of `benchmarks.figure1`."""

from statistics import median
from typing import Any

import numpy as np

from benchmarks.curves import Curve
from benchmarks.figure1 import (
    MOST_OTHERS,
    OMF,
    PEERS,
    SOMF,
    STYLES,
    TOLERANCES,
)
from benchmarks.tables.markdown import conditions, size, table

PINES = "Indian Pines"
"""The experiment on Indian Pines."""

SCENES = "Scenes"
"""The experiment on five other scenes."""

NMF = "Indian Pines, NMF"
"""The experiment with NMF."""

CPU = "cpu_seconds"
"""CPU time of all threads for learning."""

COMPUTE = "compute_seconds"
"""Time of learning."""

WALL = "wall_seconds"
"""Time of loading and learning."""

Runs = dict[str, list[Curve]]
"""The curves of each method, one per seed."""


def setting(results: dict[str, Any]) -> str:
    """Return the machine and the problem."""
    return conditions(results["machine"], {"k": results["k"], "batch": results["batch"]})


def data(results: dict[str, Any]) -> str:
    """Return the sizes of the data sets."""
    return table(
        ("data", "training patches", "test patches", "features"),
        (
            (name, size(of["train"][0]), size(of["test"][0]), size(of["train"][1]))
            for name, of in results["data"].items()
            if name != NMF
        ),
    )


def speedups(results: dict[str, Any]) -> str:
    """Return the table of the README."""
    cases = [(PINES, TOLERANCES[PINES][-1], other) for other in (OMF, *PEERS)]
    cases += [(SCENES, tolerance, OMF) for tolerance in TOLERANCES[SCENES][:2]]
    runs = {name: _runs(results, name) for name in (PINES, SCENES)}

    def sooner(method: str, name: str, tolerance: float, other: str) -> str:
        target = _targets(runs[name], name)[tolerance]
        return _sooner(runs[name][method], runs[name][other], target, CPU)

    return table(
        ("× sooner than", *(f"{other}: {name}, to {t:.1%}" for name, t, other in cases)),
        (
            (method, *(sooner(method, *case) for case in cases))
            for method in (SOMF, "SOMF, r = 12", "exact codes, r = 4")
        ),
    ).replace("%", "\N{NO-BREAK SPACE}%")


def claims(results: dict[str, Any]) -> str:
    """Return the paper's claims for r = 4 next to the measurements."""
    names = [name for name in (PINES, SCENES) if name in results["data"]]
    masked = "ICML 2016 (masked), r = 4"
    return table(
        ("at r = 4", "the paper", *names),
        (
            ("an iteration is faster than that of OMF by", "close to 4",
             *(_faster_iterations(results, name) for name in names)),
            *(
                (f"{close:.1%} from the best is reached sooner than with OMF by", "close to 4",
                 *(_sooner_at(results, name, OMF, close) for name in names))
                for close in TOLERANCES[PINES]
            ),
            *(
                (f"{close:.1%} from the best is reached sooner than with masked codes by",
                 "sooner, no factor", *(_sooner_at(results, name, masked, close) for name in names))
                for close in TOLERANCES[PINES]
            ),
        ),
    ).replace("%", "\N{NO-BREAK SPACE}%")  # fmt: skip


def _sooner_at(results: dict[str, Any], name: str, other: str, close: float) -> str:
    """Return how many times sooner SOMF at r = 4 is than another method."""
    runs = _runs(results, name)
    return _sooner(runs[SOMF], runs[other], _targets(runs, name)[close], CPU, ".2f")


def _faster_iterations(results: dict[str, Any], name: str) -> str:
    """Return how many times faster than OMF the iterations of SOMF at r = 4 are."""
    runs = _runs(results, name)
    pairs = zip(runs[OMF], runs[SOMF], strict=False)
    return _range([a.cpu_seconds[-1] / b.cpu_seconds[-1] for a, b in pairs], ".2f")


def pines_epochs(results: dict[str, Any]) -> str:
    """Return the distance from the best objective after every epoch on Indian Pines."""
    return _epochs(results, PINES)


def scenes_epochs(results: dict[str, Any]) -> str:
    """Return the same on the scenes."""
    return _epochs(results, SCENES)


def _epochs(results: dict[str, Any], name: str) -> str:
    runs, n = _runs(results, name), results["data"][name]["train"][0]
    best = min(min(curve.objective) for curves in runs.values() for curve in curves)
    n_epochs = round(runs[OMF][0].n_samples[-1] / n)

    def above(curves: list[Curve], epoch: float) -> str:
        if curves[0].n_samples[-1] < epoch * n:
            return "–"
        found = [np.interp(epoch * n, curve.n_samples, curve.objective) for curve in curves]
        return _range([100 * (objective / best - 1) for objective in found], ".3f")

    epochs = (0.25, 0.5, *range(1, n_epochs + 1))
    return table(
        ("% above the best, after epochs", *map(str, epochs)),
        ((method, *(above(curves, e) for e in epochs)) for method, curves in runs.items()),
    )


def pines_times(results: dict[str, Any]) -> str:
    """Return when each method gets close to the best objective on Indian Pines."""
    return _times(results, PINES)


def scenes_times(results: dict[str, Any]) -> str:
    """Return the same on the scenes."""
    return _times(results, SCENES)


def nmf_times(results: dict[str, Any]) -> str:
    """Return the same for NMF."""
    return _times(results, NMF)


def pines_speedups(results: dict[str, Any]) -> str:
    """Return how many times sooner than OMF each method is on Indian Pines."""
    return _speedups(results, PINES)


def scenes_speedups(results: dict[str, Any]) -> str:
    """Return the same on the scenes."""
    return _speedups(results, SCENES)


def pines_peers(results: dict[str, Any]) -> str:
    """Return how many times sooner than peers each method of somf is on Indian Pines."""
    return _peers(results, PINES)


def scenes_peers(results: dict[str, Any]) -> str:
    """Return the same on the scenes."""
    return _peers(results, SCENES)


def _peers(results: dict[str, Any], name: str) -> str:
    runs = _runs(results, name)
    targets = _targets(runs, name)
    cases = [(peer, t) for peer in PEERS if peer in runs for t in targets]
    return table(
        ("× sooner than", *(f"{peer}, to {t:.1%}" for peer, t in cases)),
        (
            (method, *(_sooner(curves, runs[peer], targets[t], CPU) for peer, t in cases))
            for method, curves in runs.items()
            if method not in PEERS
        ),
    ).replace("%", "\N{NO-BREAK SPACE}%")


def _runs(results: dict[str, Any], name: str) -> Runs:
    """Return all curves of an experiment, by method."""
    runs = results["data"][name]["runs"]
    return {
        method: [Curve(**run) for _, run in sorted(runs[method].items())]
        for method in STYLES
        if method in runs
    }


def _targets(runs: Runs, name: str) -> dict[float, float]:
    """Return the objectives at the tolerances from the best one of all methods and seeds."""
    best = min(min(curve.objective) for curves in runs.values() for curve in curves)
    return {tolerance: best * (1 + tolerance) for tolerance in TOLERANCES[name]}


def _times(results: dict[str, Any], name: str) -> str:
    """Return the seconds of an epoch, those to each target, and the last objective."""
    runs = _runs(results, name)
    targets = _targets(runs, name)
    n = results["data"][name]["train"][0]

    def seconds(curves: list[Curve], target: float) -> str:
        return _range([curve.seconds_to(target, CPU) for curve in curves], ".1f")

    def epoch(curves: list[Curve], clock: str) -> str:
        rates = [getattr(c, clock)[-1] * n / c.n_samples[-1] for c in curves if _counts(c, clock)]
        return f"{median(rates):.1f}" if rates else "–"

    return table(
        ("algorithm", "epochs", "seeds", *(f"CPU s to {tolerance:.1%}" for tolerance in targets),
         "objective at the end", "CPU s per epoch", "compute s", "with loading", "others had"),
        (
            (
                method,
                f"{curves[0].n_samples[-1] / n:.2g}",
                len(curves),
                *(seconds(curves, target) for target in targets.values()),
                f"{median(curve.objective[-1] for curve in curves):.6f}",
                *(epoch(curves, clock) for clock in (CPU, COMPUTE, WALL)),
                f"{max(0.0, median(curve.others for curve in curves)):.0%}",
            )
            for method, curves in runs.items()
        ),
    ).replace("%", "\N{NO-BREAK SPACE}%")  # fmt: skip


def _speedups(results: dict[str, Any], name: str) -> str:
    """Return how many times sooner than OMF each method reaches each target."""
    runs = _runs(results, name)
    targets = _targets(runs, name)
    names = {CPU: "CPU", COMPUTE: "compute", WALL: "with loading"}
    cases = [(tolerance, clock) for clock in names for tolerance in targets]
    return table(
        ("× sooner than OMF", *(f"{tolerance:.1%}, {names[clock]}" for tolerance, clock in cases)),
        (
            (method, *(_sooner(curves, runs[OMF], targets[t], clock) for t, clock in cases))
            for method, curves in runs.items()
            if method not in (OMF, *PEERS)
        ),
    ).replace("%", "\N{NO-BREAK SPACE}%")


def ratios(
    ours: list[Curve], theirs: list[Curve], target: float, clock: str
) -> list[tuple[float, bool]]:
    """Return how many times sooner somf is, for each seed, and whether that is a lower bound."""
    found = []
    pairs = zip(ours, theirs, strict=False)
    for mine, other in ((m, o) for m, o in pairs if _counts(m, clock) and _counts(o, clock)):
        seconds, reference = mine.seconds_to(target, clock), other.seconds_to(target, clock)
        if seconds is not None:
            at_least = getattr(other, clock)[-1] if reference is None else reference
            found.append((at_least / seconds, reference is None))
    return found


def _counts(curve: Curve, clock: str) -> bool:
    """Return whether a run was undisturbed, or its clock does not depend on other processes."""
    return clock == CPU or curve.others <= MOST_OTHERS


def _sooner(
    ours: list[Curve], theirs: list[Curve], target: float, clock: str, form: str = ".1f"
) -> str:
    """Return a ratio with its range, or a dash if a run of somf misses the target."""
    found = ratios(ours, theirs, target, clock)
    n_counted = sum(
        _counts(mine, clock) and _counts(other, clock)
        for mine, other in zip(ours, theirs, strict=False)
    )
    if not found or len(found) < n_counted:
        return "–"
    more = "> " if any(is_more for _, is_more in found) else ""
    return more + _range([ratio for ratio, _ in found], form)


def _range(values: list[float | None], form: str) -> str:
    """Return the median of values with their range, or a dash if one is missing."""
    known = sorted(value for value in values if value is not None)
    if len(known) < len(values):
        return "–"
    middle, low, high = (f"{value:{form}}" for value in (median(known), known[0], known[-1]))
    text = middle if len(known) == 1 else f"{middle} ({low} to {high})"
    return text.replace(" ", "\N{NO-BREAK SPACE}")
