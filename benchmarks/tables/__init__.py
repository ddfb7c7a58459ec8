"""The tables of README and docs, made of `benchmarks/results/*.json`.

A page holds `<!-- begin speed.iterations -->`, a table, and `<!-- end -->`. The table between the
marks is the return value of the function `iterations` of `benchmarks/tables/speed.py`, called with
the content of `benchmarks/results/speed.json`. `python -m benchmarks.tables` updates all tables,
and a test checks that they are up to date. The sentences around them are written by hand.
"""

import json
import re
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The root of the repository."""

RESULTS = ROOT / "benchmarks" / "results"
"""Where benchmarks write their results."""

PASSAGE = re.compile(r"(<!-- begin (\w+)\.(\w+) -->\n\n).*?(\n\n<!-- end -->)", re.DOTALL)
"""A generated table with its marks: the mark, the benchmark, the function, the closing mark."""


def pages() -> list[Path]:
    """Return the files that may hold tables."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def updated(page: str) -> str:
    """Return the text of a page with all its tables made of the current results."""
    return PASSAGE.sub(lambda found: found[1] + generated(found[2], found[3]) + found[4], page)


def generated(benchmark: str, name: str) -> str:
    """Return one table of the results of a benchmark, as Markdown."""
    results = json.loads((RESULTS / f"{benchmark}.json").read_text())
    table: str = getattr(import_module(f"{__name__}.{benchmark}"), name)(results)
    return table
