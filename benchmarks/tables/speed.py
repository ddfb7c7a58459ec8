"""What is said of `benchmarks.speed`."""

from typing import Any

from benchmarks.tables.markdown import machine, paragraph, size, spread, table

STAGES = ("load", "regression", "codes", "surrogate", "dictionary")


def machine_line(results: dict[str, Any]) -> str:
    """Return where this was measured, and on what."""
    n, p = results["shape"]
    return paragraph(
        f"Measured on: {machine(results['machine'])}. Data: Indian Pines, {size(n)} patches of "
        f"16 × 16 × 200 in float32 (p = {size(p)}), k = {results['k']}, λ = 0.1, batches of "
        f"{results['batch']}."
    )


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
    """Return how many times its floor an iteration takes."""
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
    """Return how other problems compare with dictionary learning."""
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
    """Return how much sooner somf gets as far as its peers."""
    reductions = list(results["curves"])
    return table(
        ("peer", "one epoch", "objective", *(f"somf, r = {r}" for r in reductions)),
        (
            (
                name,
                f"{peer['seconds']['median']:.1f} s",
                f"{peer['objective']['median']:.5f}",
                *(_reached(peer["somf"].get(r)) for r in reductions),
            )
            for name, peer in results["peers"].items()
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


def start(results: dict[str, Any]) -> str:
    """Return where everybody starts, and what the floor would allow."""
    twelve = next(
        row["ratio"]["median"]
        for row in results["iterations"]
        if (row["reduction"], row["code_estimator"]) == (12, "averaged")
    )
    sooner = results["peers"]["SPAMS"]["somf"]["12"]["sooner"]["median"]
    return paragraph(
        f"The objective at the start is {results['initial objective']:.5f}. Medians over "
        f"{results['seeds']} seeds, each with its own initial atoms and order of samples (which "
        "SPAMS draws by itself), and the extremes. Codes here are the default, averaged, which in "
        "a first epoch are masked ones. If iterations at "
        f"r = 12 took no more than their floor, it would be {sooner * max(1.0, twelve):.0f} times "
        "sooner than SPAMS."
    )


def in_short(results: dict[str, Any]) -> str:
    """Return what the README says."""
    n, p = results["shape"]
    n_iter = -(-n // results["batch"])
    seconds = {
        row["reduction"]: n_iter * row["milliseconds"]["total"]["median"] / 1e3
        for row in results["iterations"]
        if row["code_estimator"] == "averaged"
    }
    sklearn, spams = (results["peers"][name] for name in ("scikit-learn", "SPAMS"))
    return paragraph(
        f"One epoch over {size(n)} AVIRIS patches of {size(p)} features with {results['k']} atoms "
        f"takes {seconds[4]:.1f} s at `reduction=4` and {seconds[12]:.1f} s at 12, from memory "
        f"({machine(results['machine'])}). At 12, it is in "
        f"{sklearn['somf']['12']['seconds']['median']:.1f} s as far as scikit-learn's "
        "`MiniBatchDictionaryLearning` after an epoch of "
        f"{sklearn['seconds']['median']:.0f} s, and in "
        f"{spams['somf']['12']['seconds']['median']:.1f} s as far as SPAMS after an epoch of "
        f"{spams['seconds']['median']:.0f} s. `make bench` measures this on your machine; "
        "[the details](docs/speed.md)."
    )
