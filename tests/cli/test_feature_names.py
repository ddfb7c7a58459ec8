"""Names of features on the command line."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("click", reason="the command comes with the extra 'cli'")

import somf

FIT = "fit rows.npy --components 3 --epochs 1 -o a.somf"
WORDS = [f"word {i}" for i in range(23)] + ["naïve"]


def test_names_of_features_are_kept_and_shown(somf_command):
    Path("names.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    somf_command(f"{FIT} --feature-names names.txt")
    model = somf.load("a.somf")
    assert list(model.feature_names_in_) == WORDS
    facts = somf_command.json("info a.somf")
    assert len(facts["top_features"]) == 3
    largest = WORDS[int(np.abs(model.components_[1]).argmax())]
    assert facts["top_features"][1][0] == largest
    assert f"atom 1    {largest}, " in somf_command("info a.somf")
    assert somf_command.json("score a.somf rows.npy")["objective"] > 0
    somf_command("fit --config a.somf.toml -o again.somf")
    assert list(somf.load("again.somf").feature_names_in_) == WORDS


def test_names_that_are_numbers_are_wavelengths(somf_command):
    Path("names.txt").write_text("\n".join(f"{400 + 10 * i} nm" for i in range(24)))
    somf_command(f"{FIT} --feature-names names.txt")
    assert somf_command.json("info a.somf")["channels"] == "24, wavelength 400 to 630 nm"


def test_with_patches_the_channels_are_named(somf_command):
    Path("names.txt").write_text("450\n550\n650\n")
    somf_command(
        "fit scene.npy --patches 4 --components 3 --epochs 1 --feature-names names.txt -o a.somf"
    )
    model = somf.load("a.somf")
    assert model.channels_.values == (450, 550, 650)
    assert not hasattr(model, "feature_names_in_")


def test_a_file_with_other_than_one_name_for_each_feature_is_refused(somf_command):
    Path("names.txt").write_text("one\ntwo")
    somf_command(f"{FIT} --feature-names names.txt", code=2)
    assert "--feature-names must have one line for each feature, 24" in somf_command.errors
    Path("names.txt").write_bytes(b"\xff\xfe\x00")
    somf_command(f"{FIT} --feature-names names.txt", code=1)
    assert "not a text file in UTF-8" in somf_command.errors
    somf_command(f"{FIT} --feature-names none.txt", code=1)
    assert "There is no file 'none.txt'" in somf_command.errors


def test_names_cannot_control_the_terminal(somf_command):
    Path("names.txt").write_text("\n".join(["\x1b[31mred"] * 24))
    somf_command(f"{FIT} --feature-names names.txt")
    assert "\x1b" not in somf_command("info a.somf")


def test_info_tells_what_the_channels_of_an_image_are(somf_command):
    pytest.importorskip("spectral", reason="ENVI comes with the extra 'images'")
    np.load("scene.npy").tofile("scene.img")
    Path("scene.hdr").write_text(
        "ENVI\nsamples = 40\nlines = 36\nbands = 3\ndata type = 4\ninterleave = bip\n"
        "byte order = 0\nwavelength units = Micrometers\nwavelength = {0.45, 0.55, 0.65}\n"
    )
    assert somf_command.json("info scene.hdr")["channels"] == "3, wavelength 0.45 to 0.65 µm"
