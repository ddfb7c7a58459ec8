"""Small versions of the examples run."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

import somf

mpl.use("Agg")

EXAMPLES = Path(__file__).parents[2] / "examples"
"""The folder of the examples."""


def run_example(name, *options, **environment):
    """Run an example in a process of its own."""
    return subprocess.run(
        [sys.executable, EXAMPLES / name, *map(str, options)],
        env=os.environ | {"MPLBACKEND": "Agg"} | environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )


def run_here(capsys, name, *options):
    """Run the main function of an example; return its output."""
    runpy.run_path(str(EXAMPLES / name))["main"]([str(option) for option in options])
    return capsys.readouterr().out


def numbers(pattern, text):
    """Return the numbers that a pattern finds."""
    return [float(number) for number in re.findall(pattern, text)]


@pytest.fixture
def drawn(monkeypatch):
    """Return a function that returns the axes of a saved figure, none of which is empty."""
    figures, save = {}, Figure.savefig

    def keep(figure, path, **options):
        figures[path] = figure
        save(figure, path, **options)

    def axes_of(path):
        assert path.read_bytes().startswith(b"\x89PNG")
        axes = figures[path].axes
        assert all(ax.has_data() for ax in axes)
        return axes

    monkeypatch.setattr(Figure, "savefig", keep)
    return axes_of


def test_hyperspectral_example_unmixes_learns_reports_draws_and_saves(tmp_path, capsys, drawn):
    pytest.importorskip("tensorly", reason="the scene comes with the extra 'demo'")
    pytest.importorskip("rich", reason="the progress bar comes with the extra 'demo'")
    folder = tmp_path / "demo"
    options = ("--output", folder, "--components", 8, "--patch-size", 3)
    output = run_here(capsys, "hyperspectral.py", *options)
    unmixed, rebuilt = numbers(r"([\d.]+)% of the variance", output)
    assert unmixed > 85
    assert rebuilt > 60
    edge, others = numbers(r"([\d.]+)-fold", output)
    assert edge > 2 * others
    assert sorted(path.name for path in folder.iterdir()) == [
        "atoms.png",
        "patches.somf",
        "report.html",
        "scene.png",
        "spectra.png",
        "spectra.somf",
    ]
    spectra = somf.load(folder / "spectra.somf").components_
    assert spectra.shape == (4, 200)
    assert somf.load(folder / "patches.somf").components_.shape == (8, 3 * 3 * 200)
    radiance, relative, *maps = drawn(folder / "spectra.png")
    assert len(radiance.lines) == len(relative.lines) == len(maps) == 4
    for ax in (radiance, relative):
        first, *_, last = ax.lines[0].get_xdata()
        assert (first, last) == (0.40002, 2.49896)
    whole, right, again, *_ = drawn(folder / "scene.png")
    assert whole.images[0].get_array().shape == (145, 145, 3)
    assert right.images[0].get_array().shape == again.images[0].get_array().shape
    assert drawn(folder / "atoms.png")


def test_hyperspectral_example_without_tensorly_names_the_extra(tmp_path):
    (tmp_path / "tensorly.py").write_text("raise ModuleNotFoundError(name='tensorly')")
    run = run_example("hyperspectral.py", "--output", tmp_path, PYTHONPATH=str(tmp_path))
    assert run.returncode != 0
    assert "pip install 'somf[demo]'" in run.stderr


def test_denoising_example_removes_noise(tmp_path, capsys, drawn):
    output = run_here(
        capsys, "denoising.py", "--output", tmp_path, "--crop", 64, "--components", 32
    )
    before, after, blurred = numbers(r": +([\d.]+) dB", output)
    assert after > before + 2
    assert after > blurred
    clean, noisy, denoised, atoms = drawn(tmp_path / "denoising.png")
    errors = [
        np.mean((ax.images[0].get_array() - clean.images[0].get_array()) ** 2)
        for ax in (noisy, denoised)
    ]
    np.testing.assert_allclose(-10 * np.log10(errors), [before, after], atol=0.01)
    assert len(atoms.texts) == 32


def test_unmixing_example_maps_spectra(tmp_path, capsys, drawn):
    pytest.importorskip("tensorly", reason="the scene comes with the extra 'demo'")
    options = ("--crop", 40, "--components", 3, "--epochs", 2)
    output = run_here(capsys, "unmixing.py", "--output", tmp_path, *options)
    assert numbers(r"relative error: ([\d.]+)", output)[0] < 0.1
    maps, scene, error, spectra, _ = drawn(tmp_path / "unmixing.png")
    assert len(maps.texts) == len(spectra.lines) == 3
    assert scene.images[0].get_array().shape == (40, 40, 3)
    assert error.images[0].get_array().shape == (40, 40)


def test_nmf_example_composes_digits_of_few_strokes(tmp_path, capsys, drawn):
    output = run_here(
        capsys, "digits_nmf.py", "--output", tmp_path, "--components", 20, "--epochs", 3
    )
    assert numbers(r"Relative error: ([\d.]+)", output)[0] < 0.5
    assert numbers(r"consists of ([\d.]+) strokes", output)[0] < 15
    strokes, digits, usage = drawn(tmp_path / "digits_nmf.png")
    assert len(strokes.texts) == 20
    assert len(digits.get_xticks()) == 10
    assert np.all(np.diff(usage.lines[0].get_ydata()) <= 0)


def test_inpainting_example_fills_in_better_than_neighbours(tmp_path, capsys, drawn):
    pytest.importorskip("tensorly", reason="the scene comes with the extra 'demo'")
    options = ("--crop", 73, "--components", 16, "--patch-size", 3, "--epochs", 2)
    output = run_here(capsys, "inpainting.py", "--output", tmp_path, *options)
    mean, pixels, bands, dictionary = numbers(r": +([\d.]+) dB", output)
    assert mean < pixels < dictionary
    assert bands + 2 < dictionary
    axes = drawn(tmp_path / "inpainting.png")
    damaged, _, filled, truth = (ax.images[0].get_array() for ax in axes[:4])
    is_lost = np.ma.getmaskarray(damaged)
    assert 0.2 < is_lost.mean() < 0.5
    assert not np.ma.getmaskarray(filled).any()
    np.testing.assert_array_equal(filled[~is_lost], truth[~is_lost])


def test_sparse_pca_example_finds_sparse_components(tmp_path, capsys, drawn):
    options = ("--components", 16, "--patch-size", 10, "--stride", 8)
    output = run_here(capsys, "sparse_pca.py", "--output", tmp_path, *options)
    sparse, principal = numbers(r"components: (\d+)% of their entries", output)
    assert sparse < principal / 2
    for ax in drawn(tmp_path / "sparse_pca.png"):
        assert len(ax.texts) == 16


def test_topics_example_prints_and_draws_the_words_of_topics(tmp_path, capsys, drawn):
    options = ("--documents", 400, "--components", 5, "--epochs", 2)
    output = run_here(capsys, "topics.py", "--output", tmp_path, *options)
    assert numbers(r"([\d.]+)% of the matrix is not zero", output)[0] < 10
    topics = re.findall(r"^ *([\d.]+%)  (.*)$", output, re.MULTILINE)
    assert 1 <= len(topics) <= 5
    assert all(len(words.split(", ")) == 8 for _, words in topics)
    for ax, (usage, words) in zip(drawn(tmp_path / "topics.png"), topics, strict=True):
        assert ax.get_title() == usage
        assert ", ".join(label.get_text() for label in ax.get_yticklabels()) == words
        weights = [bar.get_width() for bar in ax.patches]
        assert weights == sorted(weights, reverse=True)


def test_ratings_example_predicts_ratings_that_were_held_out(tmp_path, capsys, drawn):
    lines = [
        f"{person}::{7 * thing}::{1 + (person * thing) % 5}::0"
        for person in range(60)
        for thing in range(40)
        if (person + 3 * thing) % 4
    ]
    (tmp_path / "ratings.dat").write_text("\n".join(lines))
    options = ("--components", 6, "--penalty", 0.005, 0.05, "--output", tmp_path)
    output = run_here(capsys, "ratings.py", tmp_path / "ratings.dat", *options)
    assert "1800 ratings of 60 people for 40 things, 75.0% of all" in output
    by_offsets, with_codes = numbers(r"(\d\.\d{4})", output)
    assert with_codes < by_offsets
    (ax,) = drawn(tmp_path / "ratings.png")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "offsets alone",
        "with codes",
    ]


def test_streaming_example_learns_new_samples_and_continues_from_a_file(tmp_path, capsys, drawn):
    options = ("--components", 16, "--portions", 4, "--size", 200)
    output = run_here(capsys, "streaming.py", "--output", tmp_path, *options)
    at_change, at_end = numbers(r"(0\.\d+)", re.search("Objective on flower.*", output)[0])
    assert at_end < at_change
    assert "1600 samples seen" in output
    assert drawn(tmp_path / "streaming.png")


def test_model_selection_example_compares_on_held_out_samples(tmp_path, capsys, drawn):
    options = ("--samples", 300, "--components", 10, 20, "--alpha", 0.1, 0.3, "--epochs", 1)
    output = run_here(capsys, "model_selection.py", "--output", tmp_path, *options)
    rows = [line.split() for line in output.splitlines()[1:5]]
    assert [row[:2] for row in rows] == [["0.1", "10"], ["0.1", "20"], ["0.3", "10"], ["0.3", "20"]]
    atoms = [float(row[-1]) for row in rows]
    assert min(atoms[:2]) > max(atoms[2:])
    assert drawn(tmp_path / "model_selection.png")


@pytest.mark.filterwarnings("ignore")  # those of scanpy
def test_single_cell_example_finds_programs_of_types_of_cells(tmp_path, capsys, drawn):
    pytest.importorskip("scanpy", reason="needs scanpy, which has the cells")
    output = run_here(capsys, "single_cell.py", "--output", tmp_path)
    assert re.search(r"most used by CD19\+ B: .*MS4A1", output)
    assert re.search(r"most used by CD56\+ NK: .*GNLY", output)
    assert len(list(drawn(tmp_path / "single_cell.png"))) == 9


def test_hyperspy_example_finds_the_phases(tmp_path, capsys, drawn):
    pytest.importorskip("hyperspy", reason="HyperSpy comes with the extra 'hyperspy'")
    output = run_here(capsys, "hyperspy_nmf.py", "--output", tmp_path, "--size", 24)
    assert min(numbers(r"correlation of the maps (\S+)", output)) > 0.9
    assert drawn(tmp_path / "hyperspy_nmf.png")[0].get_xlabel() == "Energy (keV)"
