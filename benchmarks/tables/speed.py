"""Tables of `benchmarks.speed`."""

from typing import Any

from benchmarks.tables.markdown import conditions, size, spread, table

STAGES = ("load", "regression", "codes", "surrogate", "dictionary")
"""The stages that take most of the time."""


def setting(results: dict[str, Any]) -> str:
    """Return the machine and the problem."""
    n, p = results["shape"]
    problem = {"n": size(n), "p": size(p), "k": results["k"], "batch": results["batch"]}
    return conditions(results["machine"], problem)


def iterations(results: dict[str, Any]) -> str:
    """Return milliseconds per iteration by stage."""
    return table(
        ("r", "codes", *STAGES, "total"),
        (
            (
                row["reduction"],
                row["code_estimator"],
                *(f"{row['milliseconds'][stage]['median']:.1f}" for stage in STAGES),
                f"**{row['milliseconds']['total']['median']:.1f}**",
            )
            for row in results["iterations"]
        ),
    )


def floors(results: dict[str, Any]) -> str:
    """Return the time of an iteration next to its floor."""
    return table(
        ("r", "codes", "total", "floor", "ratio", "shared floor", "ratio"),
        (
            (
                row["reduction"],
                row["code_estimator"],
                f"{row['milliseconds']['total']['median']:.1f}",
                f"{row['milliseconds']['floor']['median']:.1f}",
                spread(row["ratio"]),
                f"{row['milliseconds']['shared floor']['median']:.1f}",
                spread(row["ratio to the shared floor"]),
            )
            for row in results["iterations"]
        ),
    )


def variants(results: dict[str, Any]) -> str:
    """Return times of other problems next to dictionary learning."""
    return table(
        ("problem", "total, ms", "× dictionary learning", "dictionary update, ms", "codes, ms"),
        (
            (
                name,
                f"{row['milliseconds']['total']['median']:.1f}",
                f"{row['times dictionary learning']['median']:.2f}",
                f"{row['milliseconds']['dictionary']['median']:.1f}",
                f"{row['milliseconds']['codes']['median']:.1f}",
            )
            for name, row in results["variants"].items()
        ),
    )


def peers(results: dict[str, Any]) -> str:
    """Return one epoch of each peer, and when somf reaches the same objective."""
    reductions = list(results["curves"])
    return table(
        ("peer", "one epoch", "objective", *(f"somf, r = {r}" for r in reductions)),
        (
            ("initial atoms", "", f"{results['initial objective']:.5f}", *("" for _ in reductions)),
            *(
                (
                    name,
                    f"{peer['seconds']['median']:.1f} s",
                    f"{peer['objective']['median']:.5f}",
                    *(_reached(peer["somf"].get(r)) for r in reductions),
                )
                for name, peer in results["peers"].items()
            ),
        ),
    )


def _reached(reached: dict[str, Any] | None) -> str:
    if reached is None:
        return "not in an epoch"
    sooner = reached["sooner"]
    return (
        f"{reached['seconds']['median']:.2f} s, {sooner['median']:.0f} × "
        f"({sooner['low']:.0f} to {sooner['high']:.0f}) sooner"
    )


def epochs(results: dict[str, Any]) -> str:
    """Return seconds of one epoch, and when somf reaches what peers reach: the table of README."""
    n_iter = -(-results["shape"][0] // results["batch"])
    own = {
        row["reduction"]: n_iter * row["milliseconds"]["total"]["median"] / 1e3
        for row in results["iterations"]
        if row["code_estimator"] == "averaged"
    }
    peers = {name: results["peers"][name] for name in ("SPAMS", "scikit-learn")}
    return table(
        ("one epoch of", "seconds", *(f"reached by somf, r = {r}, after" for r in own)),
        (
            *((f"somf, r = {r}", f"{own[r]:.1f}", *("" for _ in own)) for r in own),
            *(
                (
                    name,
                    f"{peer['seconds']['median']:.1f}",
                    *(f"{peer['somf'][str(r)]['seconds']['median']:.1f} s" for r in own),
                )
                for name, peer in peers.items()
            ),
        ),
    )
