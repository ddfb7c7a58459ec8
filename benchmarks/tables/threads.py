"""Tables of `benchmarks.threads`."""

from typing import Any

from benchmarks.tables.markdown import conditions, table


def setting(results: dict[str, Any]) -> str:
    """Return the machine and the problem."""
    return conditions(results["machine"], {"p": "51,200", "k": 100, "batch": 50})


def iterations(results: dict[str, Any]) -> str:
    """Return milliseconds per iteration and of the floor, for every number of threads."""
    return _times(results, "ms", lambda name: "seconds" not in name, 1)


def transform(results: dict[str, Any]) -> str:
    """Return the seconds of `transform`."""
    return _times(results, "s", lambda name: "seconds" in name, 2)


def ratios(results: dict[str, Any]) -> str:
    """Return an iteration of dictionary learning, as a multiple of the floor."""
    times, counts = results["times"], _counts(results)
    names = [name for name in times if name.startswith("dictionary learning")]
    return table(
        ("× floor", *(_header(n) for n in counts)),
        (
            (
                name,
                *(
                    f"{times[name][n]['median'] / times[_floor(name)][n]['median']:.1f}"
                    for n in counts
                ),
            )
            for name in names
        ),
    )


def _header(count: str) -> str:
    return f"{count} thread" + ("s" if count != "1" else "")


def _floor(name: str) -> str:
    return name.replace("dictionary learning", "floor")


def _counts(results: dict[str, Any]) -> list[str]:
    return [str(n) for n in results["threads"]]


def _times(results: dict[str, Any], unit: str, is_wanted: Any, digits: int) -> str:
    counts = _counts(results)
    return table(
        (unit, *(_header(n) for n in counts)),
        (
            (
                name.removesuffix(", seconds"),
                *(
                    f"{rows[n]['median']:.{digits}f} "
                    f"({rows[n]['low']:.{digits}f} to {rows[n]['high']:.{digits}f})"
                    for n in counts
                ),
            )
            for name, rows in results["times"].items()
            if is_wanted(name)
        ),
    )
