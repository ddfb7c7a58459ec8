"""Tables of an earlier version of `benchmarks.defaults`, which measured around earlier defaults."""

from typing import Any

from benchmarks.tables.markdown import change, table


def settings(results: dict[str, Any]) -> str:
    """Return how every setting compares with the defaults, on every kind of data."""
    data = results["data"]
    first = next(iter(data.values()))["relative change"]
    return table(
        ("setting", "value", *data),
        (
            (
                f"`{setting}`",
                value,
                *(change(on["relative change"][setting][value], 2) for on in data.values()),
            )
            for setting, values in first.items()
            for value in values
        ),
    )
