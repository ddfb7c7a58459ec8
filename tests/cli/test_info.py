"""`somf info` describes files."""

import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from scipy.io import netcdf_file

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
        assert facts["has_state"]
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


def test_info_says_what_a_file_was_taken_for_whatever_its_name_is(somf_command):
    np.save("rows.dat.npy", np.load("rows.npy"))
    os.rename("rows.dat.npy", "rows.dat")
    facts = somf_command.json("info rows.dat")
    assert (facts["kind"], facts["samples"]) == ("NumPy", 300)
    write_rows("csv")
    facts = somf_command.json("info rows.csv")
    assert (facts["kind"], facts["features"]) == ("tables of text", 24)
    assert "x0, x1, x2" in facts["feature_names"]
    write_rows("h5ad")
    facts = somf_command.json("info cells.h5ad")
    assert (facts["what"], facts["features"]) == ("a matrix", 24)
    facts = somf_command.json("info cells.h5ad --dataset layers/scaled")
    assert (facts["what"], facts["density"]) == ("a sparse matrix", 1)


def test_info_refuses_a_file_of_no_known_kind_with_those_that_can_be_read(somf_command):
    with open("letter.docx", "wb") as file:
        file.write(b"Dear reader")
    somf_command("info letter.docx", code=1)
    assert "cannot read 'letter.docx'; readable are NumPy (.npy)" in somf_command.errors


def test_info_names_the_flags_for_raw_numbers(somf_command):
    write_rows("raw")
    somf_command("info rows.bin", code=1)
    assert "For a file of raw numbers, add for example --raw-shape" in somf_command.errors


def test_info_of_a_header_counts_the_bytes_of_the_pixels(somf_command):
    assert somf_command.json(f"info {write_image('hdr')}")["bytes"] == 36 * 40 * 3 * 4


def test_info_does_not_make_sparse_rows_dense(somf_command):
    p = 2_000_000  # 32 rows of it would be 512 MB
    columns = np.random.default_rng(0).integers(0, p, 1000)
    rows = sp.csr_array((np.full(1000, 2.0), (np.arange(1000) % 40, columns)), shape=(40, p))
    sp.save_npz("wide.npz", rows)
    tracemalloc.start()
    facts = somf_command.json("info wide.npz")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6
    assert facts["features"] == p
    assert facts["norm_of_a_sample"] == pytest.approx(2 * np.sqrt(25))


def test_info_adds_up_repeated_entries_of_sparse_rows(somf_command):
    rows = sp.csr_array((np.array([3.0, -3.0, 2.0]), [1, 1, 0], [0, 3]), shape=(1, 4))
    sp.save_npz("twice.npz", rows)
    assert somf_command.json("info twice.npz")["norm_of_a_sample"] == pytest.approx(2)


def test_data_in_other_files_need_a_permission(somf_command):
    h5py = pytest.importorskip("h5py", reason="HDF5 needs somf[hdf5]")
    rows = np.random.default_rng(0).random((30, 4))
    with h5py.File("other.h5", "w") as file:
        file["rows"] = rows
    layout = h5py.VirtualLayout(rows.shape, float)
    layout[:] = h5py.VirtualSource("other.h5", "rows", rows.shape)
    with h5py.File("X.h5", "w") as file:
        file["link"] = h5py.ExternalLink("other.h5", "rows")
        file["own"] = rows
        file.create_virtual_dataset("virtual", layout)
    for name in ("link", "virtual"):
        fit = f"fit X.h5 --components 2 -o {name}.somf"
        for command in ("info X.h5", fit, f"{fit} --patches 2"):
            somf_command(f"{command} --dataset {name}", code=2)
            assert "--allow-external must be True" in somf_command.errors
        somf_command(f"{fit} --dataset {name} --allow-external")
        somf_command(f"score {name}.somf X.h5 --dataset {name} --allow-external")
    listed = somf_command.json("info X.h5")["rows"]
    assert listed[0] == {"dataset": "own", "shape": [30, 4], "dtype": "float64"}
    assert "--allow-external" in listed[1]["dtype"]
    assert somf_command.json("info X.h5 --allow-external")["rows"][1]["shape"] == [30, 4]


def test_info_of_a_checkpoint_has_its_seconds_also_between_two_records(somf_command):
    def fail(progress):
        if progress.n_iter == 3:
            raise RuntimeError

    model = somf.DictionaryLearning(4, batch_size=2, checkpoint="going", callbacks=fail)
    with pytest.raises(RuntimeError):
        model.fit(np.load("rows.npy"), validation=0.1)
    assert somf_command.json("info going")["seconds"] > 0


def test_info_of_a_netcdf_cube_has_its_shape_and_wavelengths(somf_command):
    with netcdf_file("cube.nc", "w") as file:
        for name, size in (("y", 6), ("x", 5), ("band", 4)):
            file.createDimension(name, size)
        file.createVariable("band", "f4", ("band",))[:] = [400, 500, 600, 700]
        file.createVariable("cube", "i2", ("y", "x", "band"))[:] = 1
    facts = somf_command.json("info cube.nc")
    assert facts["shape"] == [6, 5, 4]
    assert facts["channels"] == "4, band 400 to 700"
    assert "--patches" in facts["what"]


def test_a_header_of_numbers_can_be_declared(somf_command):
    Path("bands.csv").write_text("400,410\n1,2\n3,4\n")
    assert somf_command.json("info bands.csv")["samples"] == 3
    facts = somf_command.json("info bands.csv --header")
    assert facts["samples"] == 2
    assert facts["feature_names"] == "2: 400, 410"


def test_a_folder_of_10x_is_data(somf_command):
    Path("cells").mkdir()
    scipy.io.mmwrite("cells/matrix.mtx", sp.coo_array(np.eye(3, 4)))
    Path("cells/genes.tsv").write_text("id1\tA\nid2\tB\nid3\tC\n")
    assert somf_command.json("info cells")["samples"] == 3
    somf_command("fit cells --transposed --problem nmf --components 2 --epochs 1 -o cells.somf")
    assert somf.load("cells.somf").feature_names_in_.tolist() == ["A", "B", "C"]


def test_a_folder_that_is_not_data_is_named_as_one(somf_command):
    for line in ("fit . -o z.somf", "info ."):
        somf_command(line, code=2)
        assert "'.' is a folder, not data" in somf_command.errors
        assert "*.npy" in somf_command.errors


def test_the_blocks_of_a_sparse_matrix_are_no_image(somf_command):
    sp.save_npz("blocks.npz", sp.bsr_array(np.eye(6), blocksize=(2, 3)))
    assert somf_command.json("info blocks.npz")["what"] == "a sparse matrix"
    somf_command("fit blocks.npz --patches 2x2 -o blocks.somf", code=1)
    assert "holds a sparse matrix, and no image" in somf_command.errors
