"""The `somf` command: fit, use and inspect models without writing Python."""

import os
import sys

from somf.cli.ctrl_c import handler_of_ctrl_c
from somf.errors import MissingLibraryError
from somf.optional import import_optional

LIBRARIES = ("click", "rich", "tomli_w")
"""The libraries that the extra ``somf[cli]`` installs."""


def main() -> None:
    """Run the command; without its libraries, name the extra that installs them."""
    try:
        # There is nothing to clean up yet: Ctrl-C ends the process, without an error of an import.
        with handler_of_ctrl_c(lambda *_: os._exit(130)):
            for library in LIBRARIES:
                import_optional(library, "cli", "The somf command")
            from somf.cli.app import application, print_traceback
    except MissingLibraryError as error:
        raise SystemExit(str(error)) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    sys.excepthook = print_traceback
    application(prog_name="somf")
