"""Folders on the command line."""

from collections.abc import Sequence

import click

from somf.data.formats.folders import why_no_data


def check_folders(paths: Sequence[str]) -> None:
    """Raise an error if a path is a folder that is not data."""
    for path in paths:
        if (message := why_no_data(path)) is not None:
            raise click.UsageError(message)
