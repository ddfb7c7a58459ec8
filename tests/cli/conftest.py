"""The fixture `somf_command` runs the command in this process, in a folder with data."""

import inspect
import json
import shlex

import pytest

pytest.importorskip("click", reason="the command comes with the extra 'cli'")

from click.testing import CliRunner

from somf.cli.app import application
from tests.helpers.command_files import write_data

SEPARATE_STDERR = (
    {"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}
)
"""What click before 8.2 needs in order to keep stderr and stdout apart."""


class Command:
    """Runs command lines, and keeps the result of the last one."""

    def __call__(self, line, code=0):
        """Run a command line, or a list of arguments; return its stdout."""
        arguments = shlex.split(line) if isinstance(line, str) else line
        runner = CliRunner(**SEPARATE_STDERR)
        self.run = runner.invoke(application, arguments, prog_name="somf")
        if code in (0, 1, 2) and self.run.exception is not None:
            assert isinstance(self.run.exception, SystemExit), self.run.exception
        assert self.run.exit_code == code, self.run.output
        return self.run.stdout

    def json(self, line):
        return json.loads(self(f"{line} --json"))

    @property
    def errors(self):
        return self.run.stderr


@pytest.fixture
def somf_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_data()
    return Command()
