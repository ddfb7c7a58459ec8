"""The examples run, in a small form."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import pytest

import somf

mpl.use("Agg")

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


def run_here(capsys, name, *options):
    """Run the main function of an example; return what it prints."""
    runpy.run_path(str(EXAMPLES / name))["main"]([str(option) for option in options])
    return capsys.readouterr().out


def numbers(pattern, text):
    return [float(number) for number in re.findall(pattern, text)]


def is_picture(path):
    return path.read_bytes().startswith(b"\x89PNG")


def test_denoising_example_takes_noise_out(tmp_path, capsys):
    output = run_here(
        capsys, "denoising.py", "--output", tmp_path, "--crop", 64, "--components", 32
    )
    before, after = numbers(r"PSNR .*: +([\d.]+) dB", output)
    assert after > before + 2
    assert is_picture(tmp_path / "denoising.png")


def test_nmf_example_makes_digits_of_few_strokes(tmp_path, capsys):
    output = run_here(
        capsys, "digits_nmf.py", "--output", tmp_path, "--components", 20, "--epochs", 3
    )
    assert numbers(r"Relative error: ([\d.]+)", output)[0] < 0.5
    assert numbers(r"consists of ([\d.]+) strokes", output)[0] < 15
    assert is_picture(tmp_path / "digits_nmf.png")


def test_sparse_pca_example_finds_components_that_are_sparse(tmp_path, capsys):
    options = ("--components", 16, "--patch-size", 10, "--stride", 8)
    output = run_here(capsys, "sparse_pca.py", "--output", tmp_path, *options)
    sparse, principal = numbers(r"components: (\d+)% of their entries", output)
    assert sparse < principal / 2
    assert is_picture(tmp_path / "sparse_pca.png")


def test_topics_example_prints_words_of_topics(tmp_path, capsys):
    options = ("--documents", 400, "--components", 5, "--epochs", 2)
    output = run_here(capsys, "topics.py", "--output", tmp_path, *options)
    assert numbers(r"([\d.]+)% of the matrix is not zero", output)[0] < 10
    topics = (tmp_path / "topics.txt").read_text(encoding="utf-8").splitlines()
    assert 1 <= len(topics) <= 5
    assert all(len(topic.split(", ")) == 8 for topic in topics)


def test_streaming_example_learns_what_comes_and_goes_on_from_a_file(tmp_path, capsys):
    options = ("--components", 16, "--portions", 4, "--size", 200)
    output = run_here(capsys, "streaming.py", "--output", tmp_path, *options)
    at_change, at_end = numbers(r"(0\.\d+)", re.search("Objective on flower.*", output)[0])
    assert at_end < at_change
    assert "1600 samples seen" in output
    assert is_picture(tmp_path / "streaming.png")


def test_model_selection_example_compares_on_held_out_samples(tmp_path, capsys):
    options = ("--samples", 300, "--components", 10, 20, "--alpha", 0.1, 0.3, "--epochs", 1)
    output = run_here(capsys, "model_selection.py", "--output", tmp_path, *options)
    rows = [line.split() for line in output.splitlines()[1:5]]
    assert [row[:2] for row in rows] == [["0.1", "10"], ["0.1", "20"], ["0.3", "10"], ["0.3", "20"]]
    atoms = [float(row[-1]) for row in rows]
    assert min(atoms[:2]) > max(atoms[2:])
    assert is_picture(tmp_path / "model_selection.png")
