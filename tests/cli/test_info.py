"""`somf info` describes files."""

import numpy as np
import pytest

pytest.importorskip("click", reason="the command comes with the extra 'cli'")

import somf
from tests.helpers.command_files import write_image, write_rows


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
    assert "For a file of raw numbers, add for example --raw-shape" in somf_command.errors


def test_info_of_a_header_counts_the_bytes_of_the_pixels(somf_command):
    assert somf_command.json(f"info {write_image('hdr')}")["bytes"] == 36 * 40 * 3 * 4
