"""Data of every kind is read, by the options and as the model stores it."""

import gzip

import numpy as np
import pytest
import scipy.io

pytest.importorskip("click", reason="the command comes with the extra 'cli'")

import somf
from tests.helpers.command_files import DATASETS, IMAGES, MATRICES, write_image, write_rows


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")  # some files have them
@pytest.mark.parametrize("kind", MATRICES)
def test_a_matrix_of_any_kind_is_learned_and_coded(somf_command, kind):
    data, rows = write_rows(kind), np.load("rows.npy")
    options = "--components 6 --reduction 2 --validation 0.1"
    result = somf_command.json(f"fit {data} {options} -o rows.somf")
    model = somf.load("rows.somf")
    assert result["objective"] < model.history_["objective"][0]
    somf_command(f"transform rows.somf {data} -o codes.npy")
    np.testing.assert_allclose(np.load("codes.npy"), model.transform(rows), atol=1e-6)
    if kind not in ("several", "pattern", "transposed", "mtx"):
        assert somf_command.json(f"info {data}")["samples"] == 300


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


def test_options_override_how_a_model_reads_data(somf_command):
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


def test_pixels_without_data_are_unknown_in_other_images_too(somf_command):
    image = np.load("scene.npy").astype(float)
    image[:10], image[20, :, 1] = np.nan, np.nan
    np.save("holes.npy", image)
    options = "--patches 4x4 --no-data missing --components 6 -o holes.somf"
    somf_command(f"fit holes.npy {options}", code=2)
    assert "--missing must be 'nan' for patches with no_data='missing'" in somf_command.errors
    somf_command(f"fit holes.npy --missing nan {options}")
    np.save("other.npy", image)
    assert somf_command.json("score holes.somf other.npy")["samples"] == 33 * 37
    somf_command("transform holes.somf other.npy -o codes.npy")
    patches = somf.ImagePatches(image, 4, no_data="missing")
    model = somf.load("holes.somf")
    np.testing.assert_array_equal(np.load("codes.npy"), model.transform(patches))
    somf_command("fit holes.npy --patches 4x4 --no-data gone -o other.somf", code=2)
    assert "'gone' is not a number or 'missing'" in somf_command.errors


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
    assert model.patches_["images"][0]["mask"] == f"mask.{kind}"
    patches = somf.ImagePatches("scene.npy", 4, mask=mask.astype(bool))
    somf_command("transform scene.somf scene.npy -o codes.npy")
    np.testing.assert_array_equal(np.load("codes.npy"), model.transform(patches))
    inside, everywhere = 23 * 37, 33 * 37
    assert somf_command.json("score scene.somf scene.npy --mask none")["samples"] == everywhere
    np.save("other.npy", np.load("scene.npy"))
    assert somf_command.json("score scene.somf other.npy")["samples"] == everywhere
    masked = somf_command.json(f"score scene.somf other.npy --mask mask.{kind}")
    assert masked["samples"] == inside


def test_several_images_of_different_sizes_are_one_set_of_patches(somf_command):
    image = np.load("scene.npy")
    np.save("other.npy", image[:20, :25])
    somf_command("fit scene.npy other.npy --patches 4x4 --stride 2 --components 6 -o both.somf")
    patches = somf.ImagePatches(["scene.npy", "other.npy"], 4, stride=2)
    assert somf.load("both.somf").patches_ == patches.geometry
    facts = somf_command.json("score both.somf scene.npy other.npy")
    assert facts["samples"] == patches.shape[0] == 17 * 19 + 9 * 11
    assert somf_command.json("info both.somf")["patches"]["images"] == 2
    np.save("gray.npy", image[..., 0])
    somf_command("fit scene.npy gray.npy --patches 4x4 -o gray.somf", code=1)
    assert "image must have the channels of the first one, (3,), got 1 in 'gray.npy'" in (
        somf_command.errors
    )


def test_a_volume_is_cut_into_patches_of_three_sizes(somf_command):
    np.save("volume.npy", np.random.default_rng(0).random((7, 8, 9)))
    somf_command("fit volume.npy --patches 2x3x3 --stride 2 --components 4 -o volume.somf")
    assert somf.load("volume.somf").patch_shape_ == (2, 3, 3)
    assert somf_command.json("score volume.somf volume.npy")["samples"] == 3 * 3 * 4


def test_a_mask_of_another_shape_is_refused_by_name(somf_command):
    np.save("mask.npy", np.ones((3, 3), dtype=bool))
    somf_command("fit scene.npy --patches 4 --mask mask.npy -o scene.somf", code=2)
    assert "--mask must hold booleans or integers of shape (36, 40)" in somf_command.errors
    assert "'mask.npy'" in somf_command.errors


@pytest.mark.parametrize("kind", ["h5", "zarr"])
def test_a_cube_in_the_place_of_a_matrix_is_refused_with_a_hint(somf_command, kind):
    name = write_image(kind)
    data = f"{name} --dataset cube" if kind == "h5" else name
    somf_command(f"fit {data} -o cube.somf", code=1)
    assert "If it is an image, add --patches 16x16" in somf_command.errors


def test_validation_data_may_be_a_file(somf_command):
    result = somf_command.json("fit rows.npy --components 6 --validation rows.npy -o rows.somf")
    assert result["objective"] == pytest.approx(
        somf_command.json("score rows.somf rows.npy")["objective"], rel=1e-3
    )


def test_more_atoms_than_samples_give_a_warning(somf_command):
    somf_command("fit rows.npy --components 301 -o rows.somf -q")
    assert "more atoms (301) than samples (300)" in somf_command.errors
    somf_command("fit rows.npy --components 300 -o other.somf -q")
    assert somf_command.errors == ""


def test_a_model_with_names_of_features_reads_files_without_a_warning(somf_command):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.load("rows.npy"), columns=[f"band {i}" for i in range(24)])
    somf.DictionaryLearning(6, random_state=0).fit(frame).save("rows.somf")
    somf_command("score rows.somf rows.npy -q")
    assert somf_command.errors == ""


def test_the_reason_why_a_file_holds_no_matrix_is_told(somf_command):
    scipy.io.savemat("s.mat", {"s": {"x": np.ones((3, 2))}})
    for command in ("info s.mat", "fit s.mat --components 2 -o m.somf"):
        somf_command(command, code=1)
        assert "is a struct, which cannot be read" in somf_command.errors
        assert "--patches" not in somf_command.errors


def test_a_file_that_gzip_may_not_compress_is_to_be_decompressed(somf_command):
    np.save("X.npy", np.ones((3, 2)))
    with open("X.npy", "rb") as file, open("X.npy.gz", "wb") as compressed:
        compressed.write(gzip.compress(file.read()))
    somf_command("info X.npy.gz", code=1)
    assert "gunzip -k" in somf_command.errors
    somf_command("fit X.npy.gz --components 2 -o m.somf", code=2)
    assert "gunzip -k" in somf_command.errors
