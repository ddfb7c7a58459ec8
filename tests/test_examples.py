"""The examples run, in a small form."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import somf

EXAMPLES = Path(__file__).parents[1] / "examples"


def run_example(name, *options, **environment):
    return subprocess.run(
        [sys.executable, EXAMPLES / name, *map(str, options)],
        env=os.environ | {"MPLBACKEND": "Agg"} | environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )


def test_hyperspectral_example_learns_reports_draws_and_saves(tmp_path):
    pytest.importorskip("tensorly", reason="the scene comes with the extra 'demo'")
    pytest.importorskip("rich", reason="the progress bar comes with the extra 'demo'")
    output = tmp_path / "demo"
    run = run_example("hyperspectral.py", "--output", output, "--components", 8, "--patch-size", 3)
    assert run.returncode == 0, run.stderr
    assert "Test objective" in run.stdout
    assert sorted(path.name for path in output.iterdir()) == [
        "atoms.png",
        "curve.png",
        "model.somf",
    ]
    model = somf.load(output / "model.somf")
    assert model.components_.shape == (8, 3 * 3 * 200)
    objective = model.history_["objective"]
    assert objective[-1] < objective[0]


def test_hyperspectral_example_without_tensorly_names_the_extra(tmp_path):
    (tmp_path / "tensorly.py").write_text("raise ImportError")
    run = run_example("hyperspectral.py", "--output", tmp_path, PYTHONPATH=str(tmp_path))
    assert run.returncode != 0
    assert "pip install 'somf[demo]'" in run.stderr
