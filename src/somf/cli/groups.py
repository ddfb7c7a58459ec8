"""The order of options in help texts: what most people need first, by what it is about."""

from collections.abc import Sequence
from dataclasses import fields
from inspect import signature

import click

from somf.cli.data_options import DataOptions
from somf.estimators.base import MatrixFactorization

MOST_USED = (
    "output",
    "problem",
    "n_components",
    "code_density",
    "alpha",
    "patches",
    "validation",
    "n_epochs",
    "checkpoint",
    "config",
)
"""The options that come first, in this order."""

FIRST = "Options"
"""The heading of these, and of the options of a command that no other heading fits."""

MACHINE = (
    *("device", "n_threads", "workers", "dtype", "random_state", "hash_data", "record_every"),
    *("partial", "state", "force", "quiet", "as_json", "help"),
)
"""Options about how to compute and what to print."""

DATA = (
    *(field.name for field in fields(DataOptions)),
    *(
        "weights",
        "sample_weight",
        "feature_names",
        "missing",
        "center_features",
        "offsets",
        "normalize",
    ),
)
"""Options about how samples are read, and how much they count."""

LEARNING = tuple(signature(MatrixFactorization).parameters)
"""Options about the problem and the algorithm."""

HEADINGS = {
    "Data": DATA,
    "Computing, files and output": MACHINE,
    "Learning, in detail": LEARNING,
}
"""The options of each heading; an option has the first heading that names it."""

ORDER = (FIRST, "Data", "Learning, in detail", "Computing, files and output")
"""The headings from top to bottom."""


def grouped(parameters: Sequence[click.Parameter]) -> dict[str, list[click.Parameter]]:
    """Return the options of a command by heading, without headings that have none."""
    groups: dict[str, list[click.Parameter]] = {heading: [] for heading in ORDER}
    for parameter in parameters:
        if isinstance(parameter, click.Option):
            groups[_heading(parameter)].append(parameter)
    groups[FIRST].sort(key=lambda parameter: _place(str(parameter.name)))
    return {heading: members for heading, members in groups.items() if members}


def _heading(option: click.Option) -> str:
    name = "help" if "--help" in option.opts else str(option.name)
    if name in MOST_USED:
        return FIRST
    return next((heading for heading, names in HEADINGS.items() if name in names), FIRST)


def _place(name: str) -> int:
    return MOST_USED.index(name) if name in MOST_USED else len(MOST_USED)
