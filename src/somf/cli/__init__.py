"""The `somf` command: the whole job without writing Python."""

COMES_WITH_THE_EXTRA = ("click", "rich", "tomli_w")


def main() -> None:
    """Run the command, or say what to install for it."""
    try:
        from somf.cli.app import application
    except ModuleNotFoundError as error:
        if error.name not in COMES_WITH_THE_EXTRA:
            raise
        raise SystemExit(f"The somf command needs {error.name}: pip install 'somf[cli]'.") from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    application(prog_name="somf")
