"""What README and docs say about benchmarks, made of `benchmarks/results/*.json`.

A page holds `<!-- begin speed.iterations -->`, a table or a paragraph, and `<!-- end -->`. What is
between the two is what the function `iterations` of `benchmarks/tables/speed.py` makes of
`benchmarks/results/speed.json`; `python -m benchmarks.tables` puts it there, and a test says that
it has been done.
"""

import json
import re
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
PASSAGE = re.compile(r"(<!-- begin (\w+)\.(\w+) -->\n\n).*?(\n\n<!-- end -->)", re.DOTALL)


def pages() -> list[Path]:
    """Return the files in which there may be numbers."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def renewed(page: str) -> str:
    """Return a page with everything between its marks made anew."""
    return PASSAGE.sub(lambda found: found[1] + passage(found[2], found[3]) + found[4], page)


def passage(benchmark: str, name: str) -> str:
    """Return a table or a paragraph about the results of a benchmark."""
    results = json.loads((RESULTS / f"{benchmark}.json").read_text())
    made: str = getattr(import_module(f"{__name__}.{benchmark}"), name)(results)
    return made
