"""What is said of `benchmarks.terabyte`."""

from typing import Any

from benchmarks.tables.markdown import machine, paragraph, size, table


def scene(results: dict[str, Any]) -> str:
    """Return what was fitted."""
    (height, width, channels), whole = results["scene"], results["from the file"]
    n, p = whole["shape"]
    return paragraph(
        f"A scene of {size(height)} × {size(width)} pixels × {channels} channels in uint16 "
        f"({2 * height * width * channels / 1e9:.1f} GB, mixtures of endmembers plus noise) has "
        f"{size(n)} patches of 16 × 16: a matrix of {n / 1e6:.1f} million × {size(p)}, "
        f"**{whole['TB in float32']:.2f} TB** in float32. Fitted for {size(whole['samples seen'])} "
        f"samples with k = {results['k']}, r = {results['reduction']} and batches of "
        f"{results['batch']}, each case in a process of its own: `python -m benchmarks.terabyte`, "
        f"on {machine(results['machine'])}."
    )


def cases(results: dict[str, Any]) -> str:
    """Return time and memory of every case."""
    hundredth, tenth, _ = results["parts of the scene"]
    rows = {
        "memory map, cold": results["from the file, not in the page cache"],
        "memory map, page cache": results["from the file"],
        "in memory": results["from memory"],
        "a tenth, page cache": tenth,
        "a hundredth, page cache": hundredth,
    }
    return table(
        ("scene", "samples", "ms per iteration", "mean", "samples/s", "RssAnon, MB", "RssFile, MB"),
        (
            (
                name,
                size(case["shape"][0]),
                f"{case['milliseconds per iteration']['median']:.1f}",
                f"{case['mean milliseconds per iteration']:.1f}",
                size(case["samples per second"]),
                size(case["MB at most"]["RssAnon"]),
                size(case["MB at most"]["RssFile"]),
            )
            for name, case in rows.items()
        ),
    )


def memory(results: dict[str, Any]) -> str:
    """Return what the two kinds of memory are, and what the file costs."""
    whole, ratio = results["from the file"], results["file / memory, iteration"]
    return paragraph(
        "`RssAnon` is what the process holds itself, at its peak; "
        f"{whole['MB before the fit']['RssAnon']} MB of it are there before the fit (Python and "
        "its libraries). `RssFile` are pages of mapped files that happen to be in memory, of the "
        "scene and of the scratch files below; the system takes them back when it needs them. "
        f"Together they peak at {size(whole['MB at most']['VmHWM'])} MB (`VmHWM`). The file costs "
        f"{ratio['median']:.2f} × the time from memory (median of {results['rounds']} rounds)."
    )


def statistics(results: dict[str, Any]) -> str:
    """Return what grows with n, and what does not."""
    whole = results["from the file"]
    n = size(whole["shape"][0])
    return table(
        ("", "numbers", "MB", "in"),
        (
            *(
                (
                    f"`{name}`",
                    " × ".join(map(size, kept["shape"])),
                    f"{kept['MB']:,.1f}",
                    kept["in"],
                )
                for name, kept in whole["per-sample statistics"].items()
            ),
            (
                "positions of patches",
                f"{n} × 2",
                whole["per-sample positions of patches, MB"],
                "memory",
            ),
            ("order of the epoch", n, whole["order of the epoch, MB"], "memory"),
            (
                "dictionary, surrogate, Gram matrices",
                "independent of n",
                whole["dictionary and surrogate, MB"],
                "memory",
            ),
        ),
    )
