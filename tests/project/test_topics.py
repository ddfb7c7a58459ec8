"""The tutorial about topics, from texts to a page, with the command."""

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("click", reason="the command comes with the extra 'cli'")

from click.testing import CliRunner

import somf
from somf.cli.app import application

PAGE = Path(__file__).parents[2] / "docs" / "topics.md"


def test_texts_become_topics_codes_and_a_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    matrix, search = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names = {}
    exec(_shortened(matrix), names)
    said = ""
    for line in re.findall(r"^    somf (.*)$", text, re.MULTILINE):
        # Fewer texts need fewer topics, and a pass over them is enough for a test.
        arguments = line.replace("--components 20", "--components 8 --epochs 2").split()
        run = CliRunner().invoke(application, arguments, prog_name="somf")
        assert run.exit_code == 0, (line, run.output)
        said += run.stdout
    exec(search, names)
    found = capsys.readouterr().out
    assert "fourier" in found.lower()
    model = somf.load("topics.somf")
    top = model.components_.argmax(axis=1)
    words = model.feature_names_in_[top]
    assert all(word in said for word in words)  # somf info names them
    assert len(set(words)) >= 6
    page = (tmp_path / "topics.html").read_text(encoding="utf-8")
    assert all(word in page for word in words)
    assert np.count_nonzero(names["codes"]) < names["codes"].size / 2


def _shortened(matrix):
    """Return the program for some of the modules, so that it is quick."""
    assert "modules += " in matrix
    return re.sub(r"modules \+= .*", "modules = (fft, ndimage, signal, special, stats)", matrix)
