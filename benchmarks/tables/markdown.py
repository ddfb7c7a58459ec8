"""Tables, paragraphs and numbers as Markdown."""

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def paragraph(text: str) -> str:
    """Return a text in lines of the usual length."""
    return textwrap.fill(
        " ".join(text.split()), 100, break_long_words=False, break_on_hyphens=False
    )


def spread(summary: dict[str, float]) -> str:
    """Return a median with its quartiles, which stay on one line."""
    text = f"{summary['median']:.2f} ({summary['low']:.2f} to {summary['high']:.2f})"
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def machine(facts: dict[str, Any]) -> str:
    """Return the machine, and the day, on which something was measured."""
    return f"{facts['cpu']} with {facts['threads']} threads, {facts['date']}"


def size(count: float) -> str:
    """Return a large number with thousands apart."""
    return f"{count:,.0f}"


def change(ratio: float, digits: int) -> str:
    """Return a relative change in per cent."""
    return f"{100 * ratio:+.{digits}f} %"
