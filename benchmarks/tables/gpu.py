"""What is said of `benchmarks.gpu`."""

from typing import Any

from benchmarks.tables.markdown import paragraph, size, table


def machine_line(results: dict[str, Any]) -> str:
    """Return where this was measured, and what the columns are."""
    machine, rates = results["machine"], results["rates"]
    return paragraph(
        f"One {machine['gpu']} (driver {machine['driver']}, CUDA {machine['cuda']}, torch "
        f"{machine['torch'].split('+')[0]}), {machine['threads']} cores of an {machine['cpu']}, "
        f"{machine['date']}: `python -m benchmarks.gpu`. Dictionary learning with λ = 0.1, r = 4; "
        "medians of three fits. *Epoch* is the time of the iterations, *fit* is all of `fit`, with "
        "the initial atoms, the way of arrays to the device and back, and the recording of graphs. "
        "*Floor* is what flops or bytes of an iteration, whichever is more, take at the rates "
        f"measured in the same run ({rates['flops'] / 1e12:.0f} Tflop/s, "
        f"{rates['memory bytes'] / 1e12:.1f} TB/s)."
    )


def epochs(results: dict[str, Any]) -> str:
    """Return seconds per epoch."""
    return table(
        ("data", "n × p", "k", "batch", "epoch, s", "fit, s", "ms per iteration", "floor, s"),
        (
            (
                row["data"],
                " × ".join(map(size, row["shape"])),
                size(row["k"]),
                size(row["batch"]),
                f"{row['seconds']:.2f}",
                f"{row['seconds of the whole fit']:.2f}",
                f"{row['milliseconds per iteration']:.2f}",
                f"{row['floor']['seconds']:.3f}",
            )
            for row in results["epochs"]
        ),
    )


def objectives(results: dict[str, Any]) -> str:
    """Return the objective after an epoch, by device and precision."""
    return table(
        ("products on", "objective after an epoch over Indian Pines, k = 100, batches of 50"),
        ((name, f"{objective:.6f}") for name, objective in results["objectives"].items()),
    )


def outside(results: dict[str, Any]) -> str:
    """Return what it costs to bring samples from the host."""
    return table(
        ("samples in", "GB", "epoch, s", "the way alone, s", "ratio"),
        (
            (
                row["source"],
                f"{row['gigabytes']:.1f}",
                f"{row['seconds']:.2f}",
                f"{_least(row):.2f}",
                f"{row['ratio']:.2f}",
            )
            for row in results["outside"]
        ),
    )


def _least(row: dict[str, Any]) -> float:
    """Return the seconds that the bus, or the disk, needs."""
    return float(next(row[name] for name in row if name.startswith("seconds of the") and
                      name != "seconds of the whole fit"))  # fmt: skip


def variants(results: dict[str, Any]) -> str:
    """Return milliseconds per iteration of several problems."""
    return table(
        ("problem (Indian Pines, k = 100, batches of 50)", "ms per iteration"),
        ((name, f"{ms:.2f}") for name, ms in results["milliseconds per iteration"].items()),
    )


def in_short(results: dict[str, Any]) -> str:
    """Return what the README says."""
    row = next(
        row
        for row in results["epochs"]
        if (row["data"], row["k"], row["batch"]) == ("AVIRIS scenes", 256, 256)
    )
    n, p = row["shape"]
    return paragraph(
        f"`device=\"cuda\"` computes on an NVIDIA GPU (`pip install '.[cuda]'`): an epoch over "
        f"{size(n)} patches of {size(p)} features with k = {row['k']} takes {row['seconds']:.2f} s "
        f"on an {results['machine']['gpu'].removeprefix('NVIDIA ')}. X may stay on the host or in "
        "files, and what is learned serves on machines without one. [More](docs/gpu.md)."
    )
