"""Tables of `benchmarks.objects`."""

from typing import Any

from benchmarks.tables.markdown import machine, size, spread, table


def kinds(results: dict[str, Any]) -> str:
    """Return what an epoch costs from every object, as a multiple of one from memory."""
    rows = (
        (kind, f"{row['open, seconds']:.2f}", spread(row["ratio"]))
        for kind, row in results["kinds"].items()
        if kind != "memory"
    )
    return table(("samples in", "to make a source, s", "epoch against memory"), rows)


def setting(results: dict[str, Any]) -> str:
    """Return what was measured, and where."""
    n, p = results["shape"]
    others = results["share of the cores that other processes had"]
    rows = (
        ("samples × features", f"{size(n)} × {size(p)}, float32, {4 * n * p / 1e6:.0f} MB"),
        ("rounds", results["rounds"]),
        ("machine", machine(results["machine"])),
        ("cores used by other processes", f"{100 * others:.0f} %"),
    )
    return table(("setting", "value"), rows)
