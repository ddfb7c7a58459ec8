"""The class of the subcommands: examples in the help, and errors that name options."""

from collections.abc import Callable
from typing import Any

import click

from somf.cli.errors import with_notes
from somf.cli.groups import grouped
from somf.errors import FileRequestError, ParameterError

OPTIONS: dict[str, tuple[str, ...]] = {"patch_size": ("patches",), "patch_shape": ("shape",)}
"""Options for parameters of `ImagePatches` and `somf.plotting` that have another name."""

FILE_OPTIONS: dict[str, tuple[str, ...]] = {
    "shape": ("raw_shape",),
    "dtype": ("raw_dtype",),
    "shape and dtype": ("raw_shape", "raw_dtype"),
}
"""Options for parameters of `somf.data.open_source` that have another name."""


class Command(click.Command):
    """A subcommand. A wrong parameter is reported under the name of its option.

    The help lists options under headings, those that most people need first.
    """

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of the help."""
        for heading, parameters in grouped(self.get_params(ctx)).items():
            records = [parameter.get_help_record(ctx) for parameter in parameters]
            with formatter.section(heading):
                formatter.write_dl([record for record in records if record is not None])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand."""
        try:
            return super().invoke(ctx)
        except ParameterError as error:
            flags = self._flags(error)
            if flags is None:
                raise
            raise click.UsageError(with_notes(error.message(flags), error), ctx) from error

    def _flags(self, error: ParameterError) -> str | None:
        """Return the options for a parameter, or None if this command does not have them."""
        others = FILE_OPTIONS if isinstance(error, FileRequestError) else {}
        names = others.get(error.name) or OPTIONS.get(error.name) or (error.name,)
        flags = {parameter.name: max(parameter.opts, key=len) for parameter in self.params}
        found = [flags[name] for name in names if flags.get(name, "").startswith("--")]
        return " and ".join(found) or None


def command(*lines: str) -> Callable[[Callable[..., Any]], Command]:
    """Return a decorator that makes a subcommand of a function.

    Parameters
    ----------
    *lines : str
        Command lines for the end of the help, as examples.
    """
    return click.command(cls=Command, epilog=examples(*lines))


def examples(*lines: str) -> str:
    r"""Return the end of a help text; ``\b`` stops click from wrapping the lines."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
