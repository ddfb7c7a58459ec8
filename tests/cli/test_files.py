"""Commands on files of every kind, and on files that are not what they should be."""

import html
import json
import os
import tomllib

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("click", reason="the command comes with the extra 'cli'")

from somf.cli.pictures import KINDS

import somf
from somf.inference.measurement import Measurement
from somf.persistence import tensorfile


def write_rows(kind):
    """Write the matrix as a file of some kind; return what to say on the command line."""
    rows = np.load("rows.npy")
    if kind in ("several", "pattern"):
        np.save("a1.npy", rows[:100])
        np.save("a2.npy", rows[100:])
    elif kind == "npz":
        sp.save_npz("rows.npz", sp.csr_array(rows))
    elif kind == "raw":
        rows.tofile("rows.bin")
    elif kind == "transposed":
        np.save("columns.npy", np.ascontiguousarray(rows.T))
    elif kind == "hdf5":
        h5py = pytest.importorskip("h5py", reason="HDF5 comes with the extra 'hdf5'")
        with h5py.File("rows.h5", "w") as file:
            file["other"], file["rows"] = rows[:5], rows
    elif kind == "zarr":
        zarr = pytest.importorskip("zarr", reason="Zarr comes with the extra 'zarr'")
        zarr.save_array("rows.zarr", rows)
    return MATRICES[kind]


MATRICES = {
    "npy": "rows.npy",
    "several": "a1.npy a2.npy",
    "pattern": "'a*.npy'",
    "npz": "rows.npz",
    "raw": "rows.bin --raw-shape 300x24 --raw-dtype float64",
    "transposed": "columns.npy --transposed",
    "hdf5": "rows.h5 --dataset rows",
    "zarr": "rows.zarr",
}


def write_image(kind):
    """Write the image as a file of some kind; return its name."""
    image = np.load("scene.npy")
    if kind == "mat":
        scipy_io = pytest.importorskip("scipy.io")
        scipy_io.savemat("image.mat", {"cube": image})
    elif kind == "tif":
        tifffile = pytest.importorskip("tifffile", reason="TIFF comes with the extra 'images'")
        tifffile.imwrite("image.tif", image, photometric="rgb")
    elif kind == "hdr":
        envi = pytest.importorskip("spectral.io.envi", reason="ENVI comes with the extra 'images'")
        envi.save_image("image.hdr", image)
    elif kind == "h5":
        h5py = pytest.importorskip("h5py", reason="HDF5 comes with the extra 'hdf5'")
        with h5py.File("image.h5", "w") as file:
            file["other"] = image[:5, :5]
            file.create_dataset("cube", data=image, chunks=(7, 7, 3), compression="gzip")
    elif kind == "zarr":
        zarr = pytest.importorskip("zarr", reason="Zarr comes with the extra 'zarr'")
        zarr.save_array("image.zarr", image)
    elif kind == "png":
        pil = pytest.importorskip("PIL.Image", reason="PNG comes with the extra 'images'")
        pil.fromarray(np.clip(image + 100, 0, 255).astype(np.uint8)).save("image.png")
    else:
        np.save("image.npy", image)
    return f"image.{kind}"


DATASETS = {"h5": "cube"}
"""Images that have a name in their file, since there are others."""


@pytest.mark.parametrize("kind", MATRICES)
def test_a_matrix_of_any_kind_is_learned_and_coded(somf_command, kind):
    data, rows = write_rows(kind), np.load("rows.npy")
    options = "--components 6 --reduction 2 --validation 0.1"
    result = somf_command.json(f"fit {data} {options} -o rows.somf")
    model = somf.load("rows.somf")
    assert result["objective"] < model.history_["objective"][0]
    somf_command(f"transform rows.somf {data} -o codes.npy")
    np.testing.assert_allclose(np.load("codes.npy"), model.transform(rows), atol=1e-6)
    if kind not in ("several", "pattern", "transposed"):
        assert somf_command.json(f"info {data}")["samples"] == 300


IMAGES = ("npy", "mat", "tif", "hdr", "h5", "zarr", "png")


@pytest.mark.parametrize("kind", IMAGES)
def test_an_image_of_any_kind_is_cut_into_patches_that_the_model_knows(somf_command, kind):
    name, dataset = write_image(kind), DATASETS.get(kind)
    data = name if dataset is None else f"{name} --dataset {dataset}"
    somf_command(f"fit {data} --patches 5x6 --stride 2 --no-scale --components 6 -o image.somf")
    model = somf.load("image.somf")
    assert model.patch_shape_ == (5, 6, 3)
    assert (model.patches_["center"], model.patches_["scale"]) == (True, False)
    patches = somf.ImagePatches(name, (5, 6), stride=2, scale=False, dataset=dataset)
    somf_command(f"transform image.somf {name} -o codes.npy")
    np.testing.assert_array_equal(np.load("codes.npy"), model.transform(patches))
    facts = somf_command.json(f"score image.somf {name}")
    assert facts["samples"] == patches.shape[0]
    assert facts["objective"] == pytest.approx(model.objective(patches))
    assert somf_command.json(f"info {data}")["shape"] == [36, 40, 3]


def test_flags_say_otherwise_than_the_model(somf_command):
    somf_command("fit scene.npy --patches 4x4 --components 6 -o scene.somf")
    dense = somf_command.json("score scene.somf scene.npy --stride 4")
    assert dense["samples"] == 9 * 10
    patches = somf.ImagePatches("scene.npy", 4)
    np.save("patches.npy", patches.rows(np.arange(patches.shape[0])))
    as_rows = somf_command.json("score scene.somf patches.npy --patches none")
    assert as_rows == somf_command.json("score scene.somf scene.npy")


def test_pixels_without_data_are_left_out_of_other_images_too(somf_command):
    image = np.load("scene.npy")
    image[:10] = -1
    np.save("holes.npy", image)
    somf_command("fit holes.npy --patches 4x4 --no-data -1 --components 6 -o holes.somf")
    assert somf_command.json("score holes.somf holes.npy")["samples"] == 23 * 37
    np.save("nothing.npy", np.full_like(image, -1))
    somf_command("score holes.somf nothing.npy", code=1)
    assert (
        "'nothing.npy' has no patch of (4, 4) in which all pixels have data" in somf_command.errors
    )


@pytest.mark.parametrize("kind", ["npy", "png"])
def test_a_mask_belongs_to_the_image_that_a_model_was_learned_from(somf_command, kind):
    mask = np.ones((36, 40), dtype=np.uint8)
    mask[:10] = 0
    if kind == "npy":
        np.save("mask.npy", mask.astype(bool))
    else:
        pil = pytest.importorskip("PIL.Image", reason="PNG comes with the extra 'images'")
        pil.fromarray(255 * mask).save("mask.png")
    somf_command(f"fit scene.npy --patches 4x4 --mask mask.{kind} --components 6 -o scene.somf")
    model = somf.load("scene.somf")
    assert model.patches_["mask"] == f"mask.{kind}"
    patches = somf.ImagePatches("scene.npy", 4, mask=mask.astype(bool))
    somf_command("transform scene.somf scene.npy -o codes.npy")
    np.testing.assert_array_equal(np.load("codes.npy"), model.transform(patches))
    inside, everywhere = 23 * 37, 33 * 37
    assert somf_command.json("score scene.somf scene.npy --mask none")["samples"] == everywhere
    np.save("other.npy", np.load("scene.npy"))
    assert somf_command.json("score scene.somf other.npy")["samples"] == everywhere
    masked = somf_command.json(f"score scene.somf other.npy --mask mask.{kind}")
    assert masked["samples"] == inside


def test_a_mask_that_is_none_of_the_image_is_named(somf_command):
    np.save("mask.npy", np.ones((3, 3), dtype=bool))
    somf_command("fit scene.npy --patches 4 --mask mask.npy -o scene.somf", code=2)
    assert "--mask must hold booleans or integers of shape (36, 40)" in somf_command.errors
    assert "'mask.npy'" in somf_command.errors


@pytest.mark.parametrize("kind", ["h5", "zarr"])
def test_a_cube_that_is_taken_for_a_matrix_may_be_an_image(somf_command, kind):
    name = write_image(kind)
    data = f"{name} --dataset cube" if kind == "h5" else name
    somf_command(f"fit {data} -o cube.somf", code=1)
    assert "If it is an image, say --patches 16x16" in somf_command.errors


@pytest.mark.parametrize("kind", ["npy", "npz", "zarr"])
def test_codes_are_written_to_files_of_any_kind(somf_command, kind):
    if kind == "zarr":
        zarr = pytest.importorskip("zarr", reason="Zarr comes with the extra 'zarr'")
    somf_command("fit rows.npy --components 6 -o rows.somf")
    for force in ("", "--force"):
        somf_command(f"transform rows.somf rows.npy -o codes.{kind} {force}")
    expected = somf.load("rows.somf").transform("rows.npy")
    if kind == "npy":
        codes = np.load("codes.npy")
    elif kind == "npz":
        codes = sp.load_npz("codes.npz").toarray()
    else:
        codes = zarr.open_array("codes.zarr")[:]
    np.testing.assert_array_equal(codes, expected)


def test_validation_data_may_be_a_file(somf_command):
    result = somf_command.json("fit rows.npy --components 6 --validation rows.npy -o rows.somf")
    assert result["objective"] == pytest.approx(
        somf_command.json("score rows.somf rows.npy")["objective"], rel=1e-3
    )


def test_info_tells_models_checkpoints_and_data_apart(somf_command):
    somf_command(
        "fit scene.npy --patches 4 --components 6 --checkpoint going -o scene.somf --state"
    )
    model, checkpoint = (somf_command.json(f"info {name}") for name in ("scene.somf", "going"))
    assert model["what"] == "a model"
    assert checkpoint["what"] == "a checkpoint"
    for facts in (model, checkpoint):
        assert facts["patches"]["patch_size"] == [4, 4]
        assert facts["patches"]["path"] == "scene.npy"
        assert facts["written_by_somf"] == somf.__version__
        assert (facts["atoms"], facts["features"]) == (6, 48)
        assert facts["can_go_on"]
    assert "an image" in somf_command.json("info scene.npy")["what"]
    assert somf_command.json("info rows.npy")["norm_of_a_sample"] == pytest.approx(1)


def test_info_lists_what_a_file_of_several_datasets_holds(somf_command):
    rows = write_rows("hdf5").split()[0]
    facts = somf_command.json(f"info {rows}")
    assert "--dataset" in facts["what"]
    assert facts["rows"] == [
        {"dataset": "other", "shape": [5, 24], "dtype": "float64"},
        {"dataset": "rows", "shape": [300, 24], "dtype": "float64"},
    ]
    assert "300 x 24" in somf_command(f"info {rows}")


def test_info_lists_what_a_file_of_matlab_holds(somf_command):
    scipy_io = pytest.importorskip("scipy.io")
    scipy_io.savemat("two.mat", {"a": np.ones((4, 4)), "b": np.ones((4, 4, 2))})
    assert somf_command.json("info two.mat")["rows"] == [{"dataset": "a"}, {"dataset": "b"}]


def test_info_names_the_flags_for_raw_numbers(somf_command):
    write_rows("raw")
    somf_command("info rows.bin", code=1)
    assert "If it holds raw numbers, say --raw-shape" in somf_command.errors


def test_info_of_a_header_counts_the_bytes_of_the_pixels(somf_command):
    assert somf_command.json(f"info {write_image('hdr')}")["bytes"] == 36 * 40 * 3 * 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--validation nan.npy", "nan.npy: validation must be finite, got NaN in row 7"),
        ("--validation narrow.npy", "narrow.npy: validation must have 24 features"),
        ("--checkpoint model", "Error: checkpoint must be a checkpoint or a new file"),
        ("--checkpoint scene.npy", "Error: 'scene.npy' is not a somf file"),
    ],
)
def test_errors_name_the_file_that_they_are_about(somf_command, options, message):
    somf_command("fit rows.npy --components 6 -o model")
    rows = np.load("rows.npy")
    np.save("narrow.npy", rows[:, :5])
    rows[7] = np.nan
    np.save("nan.npy", rows)
    somf_command(f"fit rows.npy --components 6 {options} -o rows.somf", code=1)
    assert message in somf_command.errors.replace(f"{os.getcwd()}{os.sep}", "")
    assert "rows.npy" not in somf_command.errors


def test_more_atoms_than_samples_are_warned_of(somf_command):
    somf_command("fit rows.npy --components 301 -o rows.somf -q")
    assert "more atoms (301) than samples (300)" in somf_command.errors
    somf_command("fit rows.npy --components 300 -o other.somf -q")
    assert somf_command.errors == ""


@pytest.fixture
def figures(monkeypatch):
    """Return a list of the figures that are saved from now on."""
    figure = pytest.importorskip("matplotlib.figure", reason="pictures come with the extra 'plot'")
    saved, save = [], figure.Figure.savefig
    monkeypatch.setattr(
        figure.Figure, "savefig", lambda self, name: saved.append(self) or save(self, name)
    )
    return saved


@pytest.mark.parametrize(("name", "patches"), [("scene", "--patches 5x5"), ("rows", "")])
def test_pictures_are_drawn_of_models_of_patches_and_of_rows(somf_command, figures, name, patches):
    somf_command(f"fit {name}.npy {patches} --components 8 --validation 0.1 -o {name}.somf")
    for kind in KINDS:
        somf_command(f"plot {name}.somf {name}.npy --kind {kind} --threads 1 -o {kind}.png")
        assert os.path.getsize(f"{kind}.png") > 1000
    drawn = {kind: figure.axes for kind, figure in zip(KINDS, figures, strict=True)}
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
    order = Measurement.of(model, source, with_gap=False).order
    atoms = model.components_[order[: len(ax.lines)]].reshape(len(ax.lines), -1, 3)
    expected = atoms.mean(axis=1) if patches else model.components_[order[: len(ax.lines)]]
    np.testing.assert_allclose([line.get_ydata() for line in ax.lines], expected, rtol=1e-5)


def test_how_many_atoms_are_drawn_and_in_which_shape_can_be_said(somf_command, figures):
    somf_command("fit rows.npy --components 8 -o rows.somf")
    somf_command("plot rows.somf --shape 4x6 -o atoms.png")
    assert figures[0].axes[0].images
    somf_command("plot rows.somf --kind spectra --atoms 4 -o spectra.png")
    assert len(figures[1].axes[0].lines) == 4
    somf_command("report rows.somf --shape 2x4x3 -o report.html")
    with open("report.html", encoding="utf-8") as file:
        assert "2 × 4 pixels, 3 channels" in file.read()
    somf_command("plot rows.somf --shape 4 -o more.png", code=2)
    somf_command("plot rows.somf --shape 4x5 -o more.png", code=1)
    assert "patch_shape must be" in somf_command.errors


def test_a_history_that_was_not_recorded_is_not_drawn(somf_command):
    pytest.importorskip("matplotlib", reason="pictures come with the extra 'plot'")
    somf_command("fit rows.npy --components 6 -o rows.somf")
    somf_command("plot rows.somf --kind history -o picture.png", code=1)
    assert "'rows.somf' has no history to draw" in somf_command.errors
    assert not os.path.exists("picture.png")


def test_the_command_to_repeat_a_run_can_be_pasted(somf_command):
    somf_command('fit rows.npy --components 6 -o "o\'ne.so mf"')
    somf_command('report "o\'ne.so mf" rows.npy -o report.html')
    with open("report.html", encoding="utf-8") as file:
        page = html.unescape(file.read())
    with open("o'ne.so mf.toml", encoding="utf-8") as file:
        told = file.read()
    command = next(line[2:].strip() for line in told.splitlines() if "--config" in line)
    assert command in page
    before = somf.load("o'ne.so mf").components_
    somf_command(command.removeprefix("somf "))
    np.testing.assert_array_equal(somf.load("o'ne.so mf").components_, before)


def test_a_name_of_several_lines_does_not_end_the_comment_that_it_is_in(somf_command):
    somf_command("fit rows.npy --components 6 -o 'one\ncomponents = 5'")
    with open("one\ncomponents = 5.toml", "rb") as file:
        assert tomllib.load(file)["components"] == 6


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("fit missing.npy -o m.somf", "There is no file 'missing.npy'"),
        ("fit 'missing*.npy' -o m.somf", "No file matches 'missing*.npy'"),
        ("fit broken.npy -o m.somf", "broken.npy"),
        ("fit scene.npy -o m.somf", "'scene.npy' does not hold a matrix. If it is an image"),
        ("fit nan.npy -o m.somf", "nan.npy: X must be finite, got NaN in row 7"),
        ("fit holes.npy --patches 4 -o m.somf", "If NaN stands for no data, say --no-data nan"),
        ("fit rows.npy -o missing/m.somf", "There is no folder 'missing'"),
        ("fit rows.npy --config missing.toml -o m.somf", "'missing.toml' cannot be read"),
        ("transform broken.somf rows.npy -o codes.npy", "broken.somf"),
        ("transform missing.somf rows.npy -o codes.npy", "missing.somf"),
        ("transform rows.npy rows.npy -o codes.npy", "'rows.npy' is not a somf file"),
        ("transform rows.somf nan.npy -o codes.npy", "nan.npy: X must be finite"),
        ("transform rows.somf narrow.npy -o codes.npy", "narrow.npy"),
        ("score missing.somf rows.npy", "missing.somf"),
        ("info missing.npy", "There is no file 'missing.npy'"),
        ("info broken.npy", "broken.npy"),
        ("info broken.somf", "broken.somf"),
        ("plot broken.somf -o atoms.png", "broken.somf"),
        ("plot rows.somf --kind history -o atoms.png", "validation"),
        ("report broken.somf -o report.html", "broken.somf"),
        ("plot rows.somf nan.npy -o atoms.png", "nan.npy: X must be finite"),
        ("report rows.somf nan.npy -o report.html", "nan.npy: X must be finite"),
    ],
)
def test_files_that_are_missing_or_broken_are_named_and_nothing_is_written(
    somf_command, line, message
):
    somf_command("fit rows.npy --components 6 -o rows.somf")
    for name in ("broken.npy", "broken.somf"):
        with open(name, "wb") as file:
            file.write(b"\x93NUMPY\x01\x00 and so on")
    rows = np.load("rows.npy")
    np.save("narrow.npy", rows[:, :5])
    rows[7, 3] = np.nan
    np.save("nan.npy", rows)
    np.save("holes.npy", np.where(np.load("scene.npy") > 0, np.nan, 1))
    before = sorted(os.listdir())
    somf_command(line, code=1)
    assert message in somf_command.errors
    assert "Traceback" not in somf_command.errors
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("fit -o m.somf", "Missing argument 'DATA...'"),
        ("fit rows.npy", "Missing option '-o'"),
        ("fit image.png -o m.somf", "'image.png' is an image: say --patches 16x16"),
        ("fit rows.npy scene.npy --patches 4 -o m.somf", "--patches takes one image, got 2"),
        ("fit numbers.bin --raw-shape 3x3 --raw-dtype float99 -o m.somf", "float99"),
        ("transform rows.somf rows.npy -o codes.txt", "must end in .npy, .npz or .zarr"),
        ("transform rows.somf", "Missing"),
        ("fit rows.npy --patches 99x99 -o m.somf", "'rows.npy': --patches must fit into the image"),
        ("fit '*s.npy' scene.npy --patches 4 -o m.somf", "--patches takes one image, got 2"),
        ("fit numbers.bin -o m.somf", "If it holds raw numbers, say --raw-shape"),
        ("fit '*.bin' -o m.somf", "The kind of 'numbers.bin' is not known"),
        ("fit numbers.bin --raw-dtype int8 -o m.somf", "--raw-shape and --raw-dtype must both"),
        (
            "fit numbers.bin --raw-shape 3x3 --raw-dtype int8 -o m.somf",
            "--raw-shape and --raw-dtype must fit the file",
        ),
        (
            "fit rows.npy --raw-shape 3x3 --raw-dtype int8 -o m.somf",
            "--raw-shape must not be given for",
        ),
        ("fit rows.npy --dataset rows -o m.somf", "--dataset must not be given for"),
        ("fit two.h5 -o m.somf", "--dataset must name one of the datasets in"),
        ("fit two.h5 --dataset c -o m.somf", "--dataset must be one of ['a', 'b']"),
        ("info two.h5 --dataset c", "--dataset must be one of ['a', 'b']"),
        ("info numbers.bin --raw-dtype int8", "--raw-shape and --raw-dtype must both"),
        (
            "fit rows.npy --validation 0.001 -o m.somf",
            "--validation: validation must be a fraction",
        ),
        ("plot rows.somf -o atoms.txt", "'atoms.txt' must end in one of"),
        ("plot rows.somf --kind reconstructions -o a.png", "--kind reconstructions takes DATA"),
        ("fit rows.npy --stride 2 -o m.somf", "--stride is for patches: say --patches 16x16"),
        ("fit rows.npy --no-center -o m.somf", "--center is for patches"),
        ("fit scene.npy --patches 4 --transposed -o m.somf", "--transposed is for matrices"),
        ("nonsense", "No such command"),
    ],
)
def test_command_lines_that_make_no_sense_are_wrong_usage(somf_command, line, message):
    for name in ("image.png", "numbers.bin"):
        with open(name, "wb"):
            pass
    if "two.h5" in line:
        h5py = pytest.importorskip("h5py", reason="HDF5 comes with the extra 'hdf5'")
        with h5py.File("two.h5", "w") as file:
            file["a"], file["b"] = np.ones((5, 4)), np.ones((3, 3))
            file["c/d"] = 5
    if line.startswith("plot"):
        pytest.importorskip("matplotlib", reason="pictures come with the extra 'plot'")
    somf_command(line, code=2)
    assert message in " ".join(somf_command.errors.split())


def test_what_exists_is_replaced_only_by_force(somf_command):
    pytest.importorskip("matplotlib", reason="pictures come with the extra 'plot'")
    somf_command("fit rows.npy --components 6 --validation 0.1 -o rows.somf")
    lines = {
        "rows.somf": "fit rows.npy --components 5 -o rows.somf",
        "codes.npy": "transform rows.somf rows.npy -o codes.npy",
        "atoms.png": "plot rows.somf -o atoms.png",
        "report.html": "report rows.somf -o report.html",
    }
    for name, line in lines.items():
        if name != "rows.somf":
            with open(name, "w") as file:
                file.write("precious")
        with open(name, "rb") as file:
            before = file.read()
        somf_command(line, code=1)
        assert f"{name!r} exists. Say --force to replace it" in somf_command.errors
        with open(name, "rb") as file:
            assert file.read() == before
        somf_command(f"{line} --force")
        with open(name, "rb") as file:
            assert file.read() != before


@pytest.mark.parametrize(
    "line",
    [
        "fit rows.npy -o rows.npy",
        "fit rows.npy -o {folder}/rows.npy",
        "fit '*s.npy' -o rows.npy",
        "fit rows.npy -o link.npy",
        "fit rows.npy --validation other.npy -o other.npy",
        "fit rows.npy --init other.npy --components 300 -o other.npy",
        "fit scene.npy --patches 4 --mask other.npy -o other.npy",
        "fit --config run.toml -o run.toml",
        "fit run.toml --raw-shape 1x3 --raw-dtype int8 -o run",
        "fit rows.npy --checkpoint new -o new",
        "fit rows.npy --checkpoint new -o new.previous",
        "fit rows.npy --checkpoint new.toml -o new",
        "transform rows.somf rows.npy -o rows.npy",
        "plot rows.somf -o rows.somf.png",
        "report rows.somf -o rows.somf",
        "report rows.somf rows.npy -o rows.npy",
        "report rows.somf -o rows.somf.toml",
    ],
)
def test_what_a_command_reads_is_not_replaced_even_by_force(somf_command, tmp_path, line):
    somf_command("fit rows.npy --components 6 -o rows.somf")
    np.save("other.npy", np.load("rows.npy"))
    os.symlink("rows.npy", "link.npy")
    if line.startswith("plot"):
        pytest.importorskip("matplotlib", reason="pictures come with the extra 'plot'")
        os.rename("rows.somf", "rows.somf.png")
        line = line.replace("rows.somf ", "rows.somf.png ")
    with open("run.toml", "w") as file:
        file.write('data = ["rows.npy"]\n')
    before = contents(".")
    somf_command(f"{line.format(folder=tmp_path)} --force", code=2)
    assert "which the same command needs" in somf_command.errors
    assert contents(".") == before


def contents(folder):
    """Return the files in a folder, and what is in them."""
    found = {}
    for at, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(at, name), "rb") as file:
                found[os.path.join(at, name)] = file.read()
    return found


def test_pixels_beside_a_header_are_not_replaced_even_by_force(somf_command):
    write_image("hdr")
    before = contents(".")
    for name in ("image.img", "image.hdr"):
        somf_command(f"fit image.hdr --patches 4 -o {name} --force", code=2)
    assert contents(".") == before


def test_codes_never_go_into_the_array_that_they_are_of(somf_command):
    write_rows("zarr")
    somf_command("fit rows.zarr --components 6 -o rows.somf")
    before = contents("rows.zarr")
    for name in ("rows.zarr", "rows.zarr/codes.npy"):
        somf_command(f"transform rows.somf rows.zarr -o {name} --force", code=2)
    assert contents("rows.zarr") == before


@pytest.mark.parametrize("name", ["rows.somf.toml", "atoms.png", "page.html", "codes.zarr"])
def test_what_cannot_be_finished_leaves_the_old_file_as_it_was(somf_command, monkeypatch, name):
    if name == "codes.zarr":
        pytest.importorskip("zarr", reason="Zarr comes with the extra 'zarr'")
    elif name == "atoms.png":
        pytest.importorskip("matplotlib", reason="pictures come with the extra 'plot'")
    line = {
        "rows.somf.toml": "fit rows.npy --components 6 -o rows.somf",
        "atoms.png": "plot rows.somf -o atoms.png",
        "page.html": "report rows.somf -o page.html",
        "codes.zarr": "transform rows.somf rows.npy -o codes.zarr",
    }[name]
    somf_command("fit rows.npy --components 6 -o rows.somf --force")
    somf_command(f"{line} --force")
    before = contents(".")
    del before[os.path.join(".", "rows.somf")]  # times of the history differ
    replace, failures = os.replace, []

    def failing(one, other):
        if other == name and not failures:
            failures.append(one)
            raise OSError("on purpose")
        replace(one, other)

    monkeypatch.setattr(os, "replace", failing)
    somf_command(f"{line} --force", code=1)
    after = contents(".")
    del after[os.path.join(".", "rows.somf")]
    assert after == before
    assert failures


def test_a_folder_that_is_not_an_array_is_never_removed(somf_command):
    somf_command("fit rows.npy --components 6 -o rows.somf")
    os.makedirs("photos.zarr/precious")
    somf_command("transform rows.somf rows.npy -o photos.zarr --force", code=1)
    assert os.path.isdir("photos.zarr/precious")


def test_what_a_file_of_others_says_does_not_command_the_terminal(somf_command):
    somf_command("fit scene.npy --patches 4 --components 6 -o scene.somf")
    tensors, text = tensorfile.read("scene.somf")
    fields = json.loads(text)
    fields["patches"]["path"] = fields["version"] = "\x1b[2Jred\nforged line"
    tensorfile.write("scene.somf", tensors, json.dumps(fields))
    said = somf_command("info scene.somf")
    assert "\x1b" not in said
    assert "\\x1b[2Jred\\nforged line" in said


def test_a_model_that_knows_names_of_features_takes_files_without_complaint(somf_command):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.load("rows.npy"), columns=[f"band {i}" for i in range(24)])
    somf.DictionaryLearning(6, random_state=0).fit(frame).save("rows.somf")
    somf_command("score rows.somf rows.npy -q")
    assert somf_command.errors == ""


def test_the_file_of_a_run_says_how_patches_were_cut_out(somf_command):
    somf_command("fit scene.npy --patches 4 --components 6 -o scene.somf")
    with open("scene.somf.toml", "rb") as file:
        told = tomllib.load(file)
    assert (told["stride"], told["center"], told["scale"]) == ("1x1", True, True)


def test_quiet_is_quiet_and_json_is_json(somf_command):
    assert somf_command("fit rows.npy --components 6 -o rows.somf --quiet") == ""
    assert somf_command.errors == ""
    assert json.loads(somf_command("score rows.somf rows.npy --json"))["samples"] == 300
    assert somf_command.errors == ""


def test_warnings_are_passed_on_even_if_quiet(somf_command):
    somf_command("fit rows.npy --problem nmf --components 6 -o rows.somf --quiet")
    assert somf_command.errors.startswith("Warning: X has negative entries")


def test_a_file_may_hold_the_options_and_the_command_line_has_the_last_word(somf_command):
    with open("run.toml", "w") as file:
        file.write('data = ["rows.npy"]\ncomponents = 5\nalpha = 0.3\npositive-code = true\n')
    somf_command("fit --config run.toml --components 4 -o rows.somf")
    model = somf.load("rows.somf")
    assert (model.n_components, model.alpha, model.positive_code) == (4, 0.3, True)
    somf_command("fit --config run.toml --density 0.1 -o sparse.somf")
    assert somf.load("sparse.somf").alpha == "auto"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("components = 2.5", "components must be an integer, got 2.5"),
        ("components = [5]", "components must be an integer, got [5]"),
        ("components = true", "components must be an integer, got True"),
        ("components = '5'", "components must be an integer, got '5'"),
        ("alpha = true", "alpha must be a number or a text, got True"),
        ("alpha = 'some'", "'some' is not a number or 'auto'"),
        ("code-tol = '1e-3'", "code-tol must be a number, got '1e-3'"),
        ("positive-code = 1", "positive-code must be true or false, got 1"),
        ("checkpoint = 5", "checkpoint must be a text, got 5"),
        ("masks = ['blocks']", "masks must be a text, got ['blocks']"),
        ("masks = 'none'", "'none' is not one of 'blocks', 'bernoulli'"),
        ("data = 'rows.npy'", "data must be a list, each a text, got 'rows.npy'"),
        ("data = ['rows.npy', 5]", "data must be a list, each a text"),
        ("validation = 2", "validation must be a fraction strictly between 0 and 1"),
        ("seed = {a = 1}", "seed must be an integer, got {'a': 1}"),
        ("alpha = 0.1\ndensity = 0.1", "--alpha and --density exclude each other"),
        ("n_components = 5", "'n_components', which is not an option of fit"),
        ("components = ", "is not TOML"),
        ("force = true", "'force', which is not an option of fit"),
    ],
)
def test_a_file_of_options_that_makes_no_sense_is_wrong_usage(somf_command, text, message):
    with open("run.toml", "w") as file:
        file.write(text)
    somf_command("fit rows.npy --config run.toml -o rows.somf", code=2)
    assert message in " ".join(somf_command.errors.split())


@pytest.mark.parametrize(
    "options",
    [
        "rows.npy --components 6 --epochs 2 --validation 0.1 --surrogate incremental",
        "rows.npy --components 6 --density 0.2 --seed 5 --checkpoint rows.checkpoint",
        "rows.npy --components 6 --problem nmf --alpha 0.05",
        "rows.npy --components 6 --init atoms.npy",
        "scene.npy --patches 4x6 --stride 2 --components 6 --no-scale --dtype float64",
        "holes.npy --patches 4x6 --no-data nan --components 6",
        "holes.npy --patches 4x6 --mask mask.npy --components 6 --validation scene.npy",
    ],
)
def test_the_file_that_a_run_leaves_repeats_it_bit_for_bit(somf_command, options):
    image = np.load("scene.npy")
    image[:10, :10] = np.nan
    np.save("holes.npy", image)
    np.save("mask.npy", ~np.isnan(image).any(axis=2))
    np.save("atoms.npy", np.load("rows.npy")[5:11])
    somf_command(f"fit {options} -o one.somf")
    somf_command("fit --config one.somf.toml -o two.somf")
    one, two = somf.load("one.somf"), somf.load("two.somf")
    np.testing.assert_array_equal(one.components_, two.components_)
    assert one.history_.get("objective") == two.history_.get("objective")
    assert (one.alpha_, one.n_iter_) == (two.alpha_, two.n_iter_)
    told = []
    for name in ("one.somf", "two.somf"):
        with open(f"{name}.toml", "rb") as file:
            told.append(tomllib.load(file) | {"output": None})
    np.testing.assert_equal(*told)  # to which NaN is equal to itself
