"""Running the command in this process, in a folder with some data."""

import json
import shlex

import numpy as np
import pytest

pytest.importorskip("click", reason="the command comes with the extra 'cli'")

from click.testing import CliRunner

from somf.cli.app import application


class Command:
    """Runs command lines; remembers the last one."""

    def __call__(self, line, code=0):
        self.run = CliRunner().invoke(application, shlex.split(line), prog_name="somf")
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


def write_data():
    """Write an image and a matrix to the folder where we are."""
    rng = np.random.default_rng(0)
    image = np.cumsum(np.cumsum(rng.standard_normal((36, 40, 3)), axis=0), axis=1)
    np.save("scene.npy", image.astype(np.float32))
    rows = rng.standard_normal((300, 5)) @ rng.standard_normal((5, 24))
    np.save("rows.npy", rows / np.linalg.norm(rows, axis=1, keepdims=True))
