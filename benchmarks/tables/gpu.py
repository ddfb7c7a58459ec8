"""Tables of `benchmarks.gpu`."""

from typing import Any

from benchmarks.tables.markdown import one_row, size, table


def setting(results: dict[str, Any]) -> str:
    """Return the machine, with the rates that floors are computed from."""
    machine, rates = results["machine"], results["rates"]
    cells = {
        "GPU": machine["gpu"],
        "driver": machine["driver"],
        "CUDA": machine["cuda"],
        "torch": machine["torch"].split("+")[0],
        "host": f"{machine['threads']} cores, {machine['cpu']}",
        "date": machine["date"],
        "Tflop/s": f"{rates['flops'] / 1e12:.0f}",
        "TB/s": f"{rates['memory bytes'] / 1e12:.1f}",
    }
    return one_row(cells)


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
    """Return seconds per epoch on samples that are not on the device."""
    return table(
        ("samples in", "GB", "epoch, s", "transfer alone, s", "ratio"),
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
    """Return the seconds of the bus or of the disk."""
    return float(next(row[name] for name in row if name.startswith("seconds of the") and
                      name != "seconds of the whole fit"))  # fmt: skip


def variants(results: dict[str, Any]) -> str:
    """Return milliseconds per iteration of several problems."""
    return table(
        ("problem (Indian Pines, k = 100, batches of 50)", "ms per iteration"),
        ((name, f"{ms:.2f}") for name, ms in results["milliseconds per iteration"].items()),
    )


def one_epoch(results: dict[str, Any]) -> str:
    """Return the seconds of one epoch over the larger data: the table of README."""
    row = next(
        row
        for row in results["epochs"]
        if (row["data"], row["k"], row["batch"]) == ("AVIRIS scenes", 256, 256)
    )
    n, p = row["shape"]
    cells = {
        "GPU": results["machine"]["gpu"],
        "patches": size(n),
        "features": size(p),
        "atoms": row["k"],
        "seconds per epoch": f"{row['seconds']:.2f}",
    }
    return one_row(cells)
