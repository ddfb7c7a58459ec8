"""Tables of `benchmarks.io`."""

from typing import Any

from benchmarks.tables.markdown import machine, size, spread, table

SOURCES = (
    "memory map",
    "patches of a file",
    "HDF5",
    "Zarr",
    "HDF5, gzip",
    "Zarr, zstd",
    "transposed memory map",
)
"""Sources in the order of the table."""

READ_AT_RANDOM = ("memory map", "HDF5", "Zarr")
"""Sources for which the rate of the disk is shown."""

CPU_SECONDS = "CPU seconds of reading alone"
"""Where the results keep the CPU time of reading without a fit."""

STATES = ("from the page cache", "from the disk")
"""Where bytes are when they are read without a fit."""


def setting(results: dict[str, Any]) -> str:
    """Return what was measured, and where."""
    n, p = results["shape"]
    others = results["share of the cores that other processes had"]
    rows = (
        ("samples", size(n)),
        ("features", f"{size(p)}, float32"),
        ("GB", f"{4 * n * p / 1e9:.1f}"),
        ("atoms", results["k"]),
        ("samples per minibatch", results["batch"]),
        ("rows per chunk", results["rows per chunk"]),
        ("rounds", results["rounds"]),
        ("machine", machine(results["machine"])),
        ("cores used by other processes", f"{100 * others:.0f} %"),
    )
    return table(("setting", "value"), rows)


def ratios(results: dict[str, Any]) -> str:
    """Return epochs from every source as multiples of those from memory."""
    cases = results["cases"]
    return table(
        ("source", *cases),
        (
            (
                name,
                *(spread(rows[name]["ratio"]) if name in rows else "" for rows in cases.values()),
            )
            for name in SOURCES
        ),
    )


def rates(results: dict[str, Any]) -> str:
    """Return the rate at which a fit consumes data, and that at which the disk delivers it."""
    consumed = results["MB/s that a fit from memory consumes"]
    cold = {case: rows for case, rows in results["cases"].items() if case.endswith("cold")}
    return table(
        ("MB/s", *(case.removesuffix(", cold") for case in cold)),
        (
            ("a fit from memory consumes", *(size(consumed[case]) for case in cold)),
            *(
                (
                    f"the disk delivers: {name}",
                    *(
                        size(rows[name]["disk, MB/s, in random pieces"]["median"])
                        for rows in cold.values()
                    ),
                )
                for name in READ_AT_RANDOM
            ),
        ),
    )


def cpu_seconds(results: dict[str, Any]) -> str:
    """Return the CPU time of reading alone, and that of a fit from memory."""
    reading = {name: row for name, row in results[CPU_SECONDS].items() if STATES[0] in row}
    cpu = {case: rows["memory"]["CPU seconds"] for case, rows in results["cases"].items()}
    fits = {case.removesuffix(", warm"): t for case, t in cpu.items() if case.endswith("warm")}
    return table(
        ("CPU seconds", *STATES),
        (
            *((name, *(f"{row[state]:.2f}" for state in STATES)) for name, row in reading.items()),
            *((f"a fit from memory, {r}", f"{seconds:.2f}", "") for r, seconds in fits.items()),
        ),
    )
