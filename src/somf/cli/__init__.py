"""The `somf` command: fit, use and inspect models without writing Python."""

import sys

LIBRARIES = ("click", "rich", "tomli_w")
"""The libraries that the extra ``somf[cli]`` installs."""


def main() -> None:
    """Run the command; without its libraries, name the extra that installs them."""
    try:
        from somf.cli.app import application, print_traceback
    except ModuleNotFoundError as error:
        if error.name not in LIBRARIES:
            raise
        raise SystemExit(f"The somf command needs {error.name}: pip install 'somf[cli]'.") from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    sys.excepthook = print_traceback
    application(prog_name="somf")
