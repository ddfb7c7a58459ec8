"""`somf plot` and `somf report` draw models."""

import os

import numpy as np
import pytest

pytest.importorskip("click", reason="the command comes with the extra 'cli'")

import somf
from somf.cli.plot import KINDS


@pytest.fixture
def figures(monkeypatch):
    """Return a list to which figures are added when they are saved."""
    figure = pytest.importorskip("matplotlib.figure", reason="pictures come with the extra 'plot'")
    saved, save = [], figure.Figure.savefig
    monkeypatch.setattr(
        figure.Figure, "savefig", lambda self, *a, **k: saved.append(self) or save(self, *a, **k)
    )
    return saved


@pytest.mark.parametrize(("name", "patches"), [("scene", "--patches 5x5"), ("rows", "")])
def test_models_of_patches_and_of_rows_are_drawn(somf_command, figures, name, patches):
    somf_command(f"fit {name}.npy {patches} --components 8 --validation 0.1 -o {name}.somf")
    kinds = [kind for kind in KINDS if patches or kind not in ("maps", "residuals")]
    for kind in kinds:
        somf_command(f"plot {name}.somf {name}.npy --kind {kind} --threads 1 -o {kind}.png")
        assert os.path.getsize(f"{kind}.png") > 1000
    drawn = {kind: figure.axes for kind, figure in zip(kinds, figures, strict=True)}
    model = somf.load(f"{name}.somf")
    source = somf.ImagePatches("scene.npy", 5) if patches else "rows.npy"
    assert len(drawn["atoms"][0].images if patches else drawn["atoms"][0].collections)
    for ax, column in zip(drawn["history"], ("n_samples_seen", "compute_seconds"), strict=True):
        np.testing.assert_array_equal(ax.lines[0].get_xdata(), model.history_[column])
        np.testing.assert_array_equal(ax.lines[0].get_ydata(), model.history_["objective"])
    density = np.mean(model.transform(source) != 0)
    assert f"{density:.1%} of the codes are not zero" in drawn["usage"][0].get_title()
    assert len(drawn["reconstructions"][0].get_xticks()) > 1
    (ax,) = drawn["spectra"]
    order = model.measure(source, with_gap=False).order
    atoms = model.components_[order[: len(ax.lines)]].reshape(len(ax.lines), -1, 3)
    expected = atoms.mean(axis=1) if patches else model.components_[order[: len(ax.lines)]]
    np.testing.assert_allclose([line.get_ydata() for line in ax.lines], expected, rtol=1e-5)


def test_options_set_the_number_and_the_shape_of_atoms(somf_command, figures):
    somf_command("fit rows.npy --components 8 -o rows.somf")
    somf_command("plot rows.somf --shape 4x6 -o atoms.png")
    assert figures[0].axes[0].images
    somf_command("plot rows.somf --kind spectra --atoms 4 -o spectra.png")
    assert len(figures[1].axes[0].lines) == 4
    somf_command("report rows.somf --shape 2x4x3 -o report.html")
    with open("report.html", encoding="utf-8") as file:
        assert "2 × 4 pixels, 3 channels" in file.read()
    somf_command("plot rows.somf --shape 4 -o more.png", code=2)
    somf_command("plot rows.somf --shape 4x5 -o more.png", code=2)
    assert "--shape must be (height, width)" in somf_command.errors


def test_a_history_is_drawn_without_a_validation_set(somf_command):
    pytest.importorskip("matplotlib", reason="pictures come with the extra 'plot'")
    somf_command("fit rows.npy --components 6 --epochs 1 -o rows.somf")
    somf_command("plot rows.somf --kind history -o picture.png")
    assert os.path.exists("picture.png")
