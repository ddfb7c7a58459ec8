"""What is said of `benchmarks.io`."""

from typing import Any

from benchmarks.tables.markdown import machine, paragraph, size, spread, table

SOURCES = (
    "memory map",
    "patches of a file",
    "HDF5",
    "Zarr",
    "HDF5, gzip",
    "Zarr, zstd",
    "transposed memory map",
)
FLOORS = "seconds of a core for reading alone"
RANDOM = "disk, MB/s, in random pieces"


def machine_line(results: dict[str, Any]) -> str:
    """Return what was measured, and where."""
    n, p = results["shape"]
    return paragraph(
        f"One epoch over {size(n)} patches of Indian Pines (p = {size(p)}, float32, "
        f"{4 * n * p / 1e9:.1f} GB; k = {results['k']}, batches of {results['batch']}) from each "
        "kind of source, as a multiple of the time from memory (for patches of a file: of patches "
        "in memory). *Warm* is from the page cache, *cold* from the disk. HDF5 and Zarr have "
        f"chunks of {results['rows per chunk']} rows, not compressed. Medians and quartiles of "
        f"{results['rounds']} rounds in turns: `python -m benchmarks.io`, on "
        f"{machine(results['machine'])}."
    )


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
            if any(name in rows for rows in cases.values())
        ),
    )


def floors(results: dict[str, Any]) -> str:
    """Return what reading costs, whoever does it, beside all that a fit costs."""
    kinds = ("from the page cache", "from the disk", "from the disk, past the page cache")
    reading = {name: row for name, row in results[FLOORS].items() if kinds[0] in row}
    cores = {case: row["memory"]["seconds of all cores"] for case, row in results["cases"].items()}
    warm = [cores[case] for case in cores if case.endswith("warm")]
    return table(
        ("seconds of a core", *kinds),
        (
            *((name, *(f"{row[kind]:.2f}" for kind in kinds)) for name, row in reading.items()),
            ("a fit from memory", " and ".join(f"{seconds:.2f}" for seconds in warm), "", ""),
        ),
    )


def rates(results: dict[str, Any]) -> str:
    """Return what a fit consumes and what the disk delivers."""
    consumed = results["MB/s that a fit from memory consumes"]
    cold = {case: rows for case, rows in results["cases"].items() if case.endswith("cold")}
    delivered = ("memory map", "HDF5", "Zarr")
    return table(
        ("MB/s", *(case.removesuffix(", cold") for case in cold)),
        (
            ("a fit from memory consumes", *(size(consumed[case]) for case in cold)),
            *(
                (f"the disk delivers: {name}", *(size(rows[name][RANDOM]["median"])
                                                 for rows in cold.values()))
                for name in delivered
            ),
        ),
    )  # fmt: skip
