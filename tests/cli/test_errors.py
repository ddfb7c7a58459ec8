"""Errors name the file or the option, and set the exit code."""

import os
import signal

import numpy as np
import pytest

pytest.importorskip("click", reason="the command comes with the extra 'cli'")

from somf.algorithm.solver import Solver
from somf.cli.errors import message_of
from somf.errors import MissingDeviceError, MissingLibraryError, OutOfMemoryError
from somf.inference.coding import Coder
from tests.helpers.compiling import compile_and_interrupt


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--validation nan.npy", "nan.npy: validation must be finite, got NaN in row 7"),
        ("--validation narrow.npy", "narrow.npy: validation must have 24 features"),
        ("--checkpoint scene.npy", "Error: 'scene.npy' is not a somf file"),
    ],
)
def test_an_error_names_the_file_at_fault(somf_command, options, message):
    somf_command("fit rows.npy --components 6 -o model")
    rows = np.load("rows.npy")
    np.save("narrow.npy", rows[:, :5])
    rows[7] = np.nan
    np.save("nan.npy", rows)
    somf_command(f"fit rows.npy --components 6 {options} -o rows.somf", code=1)
    assert message in somf_command.errors.replace(f"{os.getcwd()}{os.sep}", "")
    assert "rows.npy" not in somf_command.errors


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("fit missing.npy -o m.somf", "There is no file 'missing.npy'"),
        ("fit 'missing*.npy' -o m.somf", "No file matches 'missing*.npy'"),
        ("fit broken.npy -o m.somf", "broken.npy"),
        (
            "fit scene.npy -o m.somf",
            "scene.npy' must hold a matrix of samples × features, got 3D array of shape "
            "(36, 40, 3). If it is an image, add --patches 16x16",
        ),
        ("fit nan.npy -o m.somf", "nan.npy: X must be finite, got NaN in row 7"),
        (
            "fit holes.npy --patches 4 -o m.somf",
            "If NaN or infinity stands for no data, add --no-data nan",
        ),
        ("fit rows.npy -o missing/m.somf", "There is no folder 'missing'"),
        ("fit rows.npy --config missing.toml -o m.somf", "'missing.toml' cannot be read"),
        ("transform broken.somf rows.npy -o codes.npy", "broken.somf"),
        ("transform missing.somf rows.npy -o codes.npy", "missing.somf"),
        ("transform rows.npy rows.npy -o codes.npy", "'rows.npy' is not a somf file"),
        ("transform rows.somf nan.npy -o codes.npy", "nan.npy: X must be finite"),
        ("transform rows.somf narrow.npy -o codes.npy", "narrow.npy must have 24 features"),
        ("transform rows.somf rows.npy -o folder.npy --force", "'folder.npy' is a folder"),
        ("fit rows.npy -o folder --force", "'folder' is a folder"),
        ("score missing.somf rows.npy", "missing.somf"),
        ("info missing.npy", "There is no file 'missing.npy'"),
        ("info broken.npy", "broken.npy"),
        ("info broken.somf", "broken.somf"),
        ("plot broken.somf -o atoms.png", "broken.somf"),
        ("report broken.somf -o report.html", "broken.somf"),
        ("plot rows.somf nan.npy -o atoms.png", "nan.npy: X must be finite"),
        ("report rows.somf nan.npy -o report.html", "nan.npy: X must be finite"),
    ],
)
def test_a_missing_or_broken_file_is_named_and_nothing_is_written(somf_command, line, message):
    somf_command("fit rows.npy --components 6 -o rows.somf")
    for name in ("broken.npy", "broken.somf"):
        with open(name, "wb") as file:
            file.write(b"\x93NUMPY\x01\x00 and so on")
    rows = np.load("rows.npy")
    np.save("narrow.npy", rows[:, :5])
    rows[7, 3] = np.nan
    np.save("nan.npy", rows)
    np.save("holes.npy", np.where(np.load("scene.npy") > 0, np.nan, 1))
    for name in ("folder", "folder.npy"):
        os.mkdir(name)
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
        ("fit image.png -o m.somf", "'image.png' is an image: add --patches 16x16"),
        (
            "fit scene.npy scene.npy --patches 4 --mask mask.npy -o m.somf",
            "--mask is for one image, got 2",
        ),
        ("fit numbers.bin --raw-shape 3x3 --raw-dtype float99 -o m.somf", "float99"),
        ("transform rows.somf rows.npy -o codes.txt", "must end in .npy, .npz or .zarr"),
        ("transform rows.somf", "Missing"),
        ("fit rows.npy --patches 99x99 -o m.somf", "--patches must fit into the image"),
        ("fit scene.npy --patches 4x4x4x4 -o m.somf", "is not of the form 16, 16x16 or 4x8x8"),
        ("fit numbers.bin -o m.somf", "For a file of raw numbers, add for example --raw-shape"),
        ("fit '*.bin' -o m.somf", "cannot read 'numbers.bin'; readable are NumPy (.npy)"),
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
            "--validation must be a fraction that leaves samples on both sides",
        ),
        ("plot rows.somf -o atoms.txt", "--output must end in one of ."),
        ("plot rows.somf --kind reconstructions -o a.png", "--kind reconstructions needs DATA"),
        ("fit rows.npy --stride 2 -o m.somf", "--stride needs patches: add --patches 16x16"),
        ("fit rows.npy --no-center -o m.somf", "--center needs patches"),
        ("fit scene.npy --patches 4 --transposed -o m.somf", "--transposed is for matrices"),
        ("fit rows.npy --checkpoint model -o m.somf", "--checkpoint must be a checkpoint or a new"),
        ("nonsense", "No such command"),
    ],
)
def test_a_wrong_command_line_is_wrong_usage(somf_command, line, message):
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
    if "--checkpoint model" in line:
        somf_command("fit rows.npy -o model")
    somf_command(line, code=2)
    assert message in " ".join(somf_command.errors.split())


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            MissingDeviceError("cuda", "an NVIDIA GPU."),
            "--device cuda needs an NVIDIA GPU. Use --device cpu to compute without it.",
        ),
        (
            MissingLibraryError('device="cuda"', "torch", "cuda"),
            "--device cuda needs torch, which is not installed: pip install 'somf[cuda]'.",
        ),
        (
            MissingLibraryError("An HDF5 file", "h5py", "hdf5"),
            "An HDF5 file needs h5py, which is not installed: pip install 'somf[hdf5]'.",
        ),
        (OutOfMemoryError("The GPU has not enough memory."), "The GPU has not enough memory."),
        (MemoryError(), "There is not enough memory."),
        (ValueError(), "ValueError"),
    ],
)
def test_a_message_is_in_the_terms_of_the_command_line(error, message):
    assert message_of(error) == message


def test_the_notes_of_an_error_are_part_of_its_message():
    error = ValueError("It failed.")
    error.add_note("Try again.")
    assert message_of(error) == "It failed. Try again."


@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"]
)
@pytest.mark.parametrize(
    "line",
    [
        "fit rows.npy --components 4 -o new.somf",
        "transform rows.somf rows.npy -o codes.npy",
        "score rows.somf rows.npy",
        "report rows.somf rows.npy -o report.html",
    ],
)
def test_a_signal_while_kernels_are_compiled_ends_a_command(
    somf_command, monkeypatch, line, signum, code
):
    somf_command("fit rows.npy --components 4 -o rows.somf")
    before = sorted(os.listdir())
    monkeypatch.setattr(Coder, "code", lambda *_: compile_and_interrupt(signum))
    monkeypatch.setattr(Solver, "step", lambda *_: compile_and_interrupt(signum))
    ctrl_c = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        somf_command(line, code=code)
    finally:
        signal.signal(signal.SIGINT, ctrl_c)
    assert "Error" not in somf_command.errors
    assert sorted(os.listdir()) == before
