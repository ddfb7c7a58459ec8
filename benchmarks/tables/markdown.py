"""Tables and numbers as Markdown."""

from collections.abc import Iterable, Sequence
from typing import Any


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def one_row(cells: dict[str, object]) -> str:
    """Return a table of one row."""
    return table(list(cells), [list(cells.values())])


def conditions(facts: dict[str, Any], settings: dict[str, object]) -> str:
    """Return a table of one row: processor, threads and date, and settings of a benchmark."""
    machine = {"processor": facts["cpu"], "threads": facts["threads"], "date": facts["date"]}
    return one_row(machine | settings)


def spread(summary: dict[str, float]) -> str:
    """Return a median with its quartiles, without line breaks."""
    text = f"{summary['median']:.2f} ({summary['low']:.2f} to {summary['high']:.2f})"
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def machine(facts: dict[str, Any]) -> str:
    """Return processor, threads and date of a measurement."""
    return f"{facts['cpu']} with {facts['threads']} threads, {facts['date']}"


def size(count: float) -> str:
    """Return a large number with commas between thousands."""
    return f"{count:,.0f}"


def change(ratio: float, digits: int) -> str:
    """Return a relative change in per cent."""
    return f"{100 * ratio:+.{digits}f} %"
