"""Where the model and the page come from: data, dates, machine, versions."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any

from somf.persistence.provenance import LIBRARIES, machine

MOST_FILES = 3
"""The largest number of files that are named."""


def origin(model: Any, data_name: str, version: str) -> str:
    """Return the rows of a table about where the model and the page come from.

    Parameters
    ----------
    model : fitted estimator
    data_name : str
        The data that the model was measured on; empty if there is none.
    version : str
        That of somf, which writes the page.
    """
    made = getattr(model, "provenance_", {})
    versions = [f"{name} {made[name]}" for name in ("python", *LIBRARIES) if name in made]
    here = machine()
    rows = {
        "learned from": made.get("data", ""),
        "learned on": made.get("date", ""),
        "with": ", ".join(versions),
        "machine": made.get("machine", ""),
        "measured on": data_name,
        "this page": f"{datetime.now(UTC):%Y-%m-%d %H:%M UTC}, somf {version}"
        + (f", on {here}" if here != made.get("machine") else ""),
    }
    return "\n".join(
        f'<tr><th scope="row">{name}</th><td>{escape(value)}</td></tr>'
        for name, value in rows.items()
        if value
    )


def name_of(files: Sequence[str]) -> str:
    """Return the names of files, without their folders; of many, the first ones."""
    names = [os.path.basename(path) for path in files]
    if len(names) <= MOST_FILES:
        return ", ".join(names)
    return f"{', '.join(names[:MOST_FILES])} and {len(names) - MOST_FILES} more"
