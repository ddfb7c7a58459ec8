"""Tables of `benchmarks.terabyte`."""

from typing import Any

from benchmarks.tables.markdown import conditions, one_row, size, table


def scene(results: dict[str, Any]) -> str:
    """Return the machine, the scene and its matrix of patches."""
    (height, width, channels), whole = results["scene"], results["from the file"]
    n, p = whole["shape"]
    return conditions(
        results["machine"],
        {
            "scene": f"{size(height)} × {size(width)} × {channels}",
            "file, GB": f"{2 * height * width * channels / 1e9:.1f}",
            "patches": size(n),
            "features": size(p),
            "matrix in float32, TB": f"**{whole['TB in float32']:.2f}**",
            "k": results["k"],
            "r": results["reduction"],
            "batch": results["batch"],
            "samples fitted": size(whole["samples seen"]),
        },
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
    """Return memory before the fit, the peak of all memory, and the time relative to memory."""
    whole, ratio = results["from the file"], results["file / memory, iteration"]
    cells = {
        "RssAnon before the fit, MB": size(whole["MB before the fit"]["RssAnon"]),
        "VmHWM, MB": size(whole["MB at most"]["VmHWM"]),
        "time from the file / from memory": f"{ratio['median']:.2f}",
        "rounds": results["rounds"],
    }
    return one_row(cells)


def statistics(results: dict[str, Any]) -> str:
    """Return the size of every array that grows with n, and of the others together."""
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
