"""Tables of `benchmarks.noise`."""

from statistics import median
from typing import Any

from benchmarks.noise import EPOCHS, SETTINGS
from benchmarks.tables.markdown import change, conditions, table

WORDS = {"until the passes": "the rule until the passes", "rule": "the rule"}
"""Settings that are no number of samples per atom."""


def setting(results: dict[str, Any]) -> str:
    """Return the conditions."""
    n_seeds = len({row["seed"] for rows in results["data"].values() for row in rows})
    return conditions(results["machine"] | {"threads": 1}, {"seeds": n_seeds})


def early(results: dict[str, Any]) -> str:
    """Return training objectives after some epochs, relative to those without noise."""
    return _relative(results, "training objective", f"after {EPOCHS} epochs")


def ends(results: dict[str, Any]) -> str:
    """Return held-out objectives at the end, relative to those without noise, and epochs."""
    return _relative(results, "objective", "at the end", has_epochs=True)


def _relative(results: dict[str, Any], column: str, when: str, has_epochs: bool = False) -> str:
    rows = []
    for name, found in results["data"].items():
        by = {s: [row for row in found if row["setting"] == s] for s in SETTINGS}
        medians = {s: median(row[column] for row in rows) for s, rows in by.items()}
        cells = [change(medians[s] / medians["none"] - 1, 2) for s in SETTINGS[1:]]
        if has_epochs:
            cells += [f"{median(row['epochs'] for row in by[s]):.0f}" for s in ("none", "rule")]
        rows.append((name, *cells))
    words = [f"{s} per atom" if s.isdigit() else WORDS[s] for s in SETTINGS[1:]]
    header = ("data", *(f"{word}, {when}" for word in words))
    if has_epochs:
        header = (*header, "epochs without noise", "epochs by the rule")
    return table(header, rows)
