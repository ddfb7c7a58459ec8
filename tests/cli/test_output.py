"""Files that commands write are complete, and replace others only with --force."""

import os

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("click", reason="the command comes with the extra 'cli'")

import somf
from tests.helpers.command_files import write_image, write_rows


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


def test_a_file_that_exists_is_replaced_only_with_force(somf_command):
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
        assert f"{name!r} exists. Add --force to replace it" in somf_command.errors
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
def test_a_file_that_the_command_reads_is_not_replaced_even_with_force(
    somf_command, tmp_path, line
):
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
    """Return the content of each file in a folder."""
    found = {}
    for at, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(at, name), "rb") as file:
                found[os.path.join(at, name)] = file.read()
    return found


def test_the_data_file_of_a_header_is_not_replaced_even_with_force(somf_command):
    write_image("hdr")
    before = contents(".")
    for name in ("image.img", "image.hdr"):
        somf_command(f"fit image.hdr --patches 4 -o {name} --force", code=2)
    assert contents(".") == before


def test_codes_are_never_written_into_the_array_of_the_samples(somf_command):
    write_rows("zarr")
    somf_command("fit rows.zarr --components 6 -o rows.somf")
    before = contents("rows.zarr")
    for name in ("rows.zarr", "rows.zarr/codes.npy"):
        somf_command(f"transform rows.somf rows.zarr -o {name} --force", code=2)
    assert contents("rows.zarr") == before


@pytest.mark.parametrize("name", ["rows.somf.toml", "atoms.png", "page.html", "codes.zarr"])
def test_an_error_at_the_end_leaves_the_old_file_unchanged(somf_command, monkeypatch, name):
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


def test_a_folder_that_is_not_a_zarr_array_is_never_replaced(somf_command):
    somf_command("fit rows.npy --components 6 -o rows.somf")
    os.makedirs("photos.zarr/precious")
    somf_command("transform rows.somf rows.npy -o photos.zarr --force", code=1)
    assert os.path.isdir("photos.zarr/precious")
