"""Damaged and crafted models, through the interface and all commands that read a model."""

import os
import tracemalloc
from contextlib import suppress

import numpy as np
import pytest
from click.testing import CliRunner

import somf
from somf import Checkpoint, DictionaryLearning, ImagePatches
from somf.cli.app import application
from somf.errors import DamagedFileError, SomfError
from somf.report import write_report
from tests.helpers.mutants import craft, damaged

X = np.random.default_rng(0).standard_normal((16, 6)).astype(np.float32)
PARAMS = {"n_components": 2, "reduction": 2, "batch_size": 5, "n_epochs": 2, "random_state": 0}
KINDS = ("model", "state", "checkpoint", "patches")
N_MUTANTS = 120
"""Mutants of each kind that are used in Python."""

N_COMMANDS = 6
"""Mutants of each kind that are not refused, on which all commands are run."""

MOST_BYTES = 2**26
"""Memory that one mutant may take."""


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Return the bytes of models and of a checkpoint."""
    folder = tmp_path_factory.mktemp("good")
    model = DictionaryLearning(**PARAMS).fit(X, validation=0.3)
    model.save(folder / "model")
    model.save(folder / "state", state=True)
    asked = Checkpoint(folder / "checkpoint", hash_data=True, every_samples=5)
    with pytest.raises(InterruptedError):
        DictionaryLearning(**PARAMS, checkpoint=asked, callbacks=stop).fit(X, validation=0.3)
    image = np.random.default_rng(0).standard_normal((6, 6, 3))
    DictionaryLearning(**PARAMS).fit(ImagePatches(image, (1, 2))).save(folder / "patches")
    return {kind: (folder / kind).read_bytes() for kind in KINDS}


def stop(progress):
    if progress.n_iter == 3:
        raise InterruptedError


def use(model, folder):
    """Do everything that is done with a model; only errors of somf may happen."""
    for call in (
        lambda: model.transform(X),
        lambda: model.score(X),
        lambda: model.stationarity_gap(X),
        lambda: write_report(model, folder / "report.html"),
        lambda: write_report(model, folder / "report.html", data=X),
        lambda: model.save(folder / "again"),
        lambda: model.partial_fit(X),
    ):
        with suppress(SomfError):
            call()


@pytest.mark.filterwarnings("ignore:.*codes did not reach")
@pytest.mark.parametrize("kind", KINDS)
def test_a_crafted_model_is_refused_as_damaged_or_works(tmp_path, good, kind):
    path = tmp_path / "file"
    n_refused = 0
    for seed in range(N_MUTANTS):
        craft(path, good[kind], np.random.default_rng([seed, KINDS.index(kind)]))
        tracemalloc.start()
        try:
            use(somf.load(path).set_params(verbose=0), tmp_path)
        except DamagedFileError:
            n_refused += 1
        finally:
            _, most = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        assert most < MOST_BYTES
    assert N_MUTANTS / 3 < n_refused < N_MUTANTS  # some of both


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_model_is_refused(tmp_path, good, kind):
    path = tmp_path / "file"
    for seed in range(N_MUTANTS):
        content = damaged(good[kind], np.random.default_rng(seed))
        path.write_bytes(content)
        if content != good[kind]:
            with pytest.raises(DamagedFileError, match="file' is not a somf"):
                somf.load(path)


def test_a_crafted_checkpoint_is_refused_or_resumed(tmp_path, good):
    for seed in range(N_MUTANTS):
        path = tmp_path / str(seed) / "c"
        path.parent.mkdir()
        craft(path, good["checkpoint"], np.random.default_rng(seed))
        before = path.read_bytes()
        try:
            asked = Checkpoint(path, hash_data=True)
            model = DictionaryLearning(**PARAMS, checkpoint=asked).fit(X, validation=0.3)
        except SomfError:
            assert path.read_bytes() == before
        else:
            assert np.isfinite(model.components_).all()


COMMANDS = (
    "info file.somf",
    "info file.somf --json",
    "transform file.somf X.npy -o codes.npy --force",
    "score file.somf X.npy",
    "report file.somf -o report.html --force",
    "report file.somf X.npy -o report.html --force",
    "plot file.somf -o atoms.png --force",
    "plot file.somf --kind history -o history.png --force",
    "plot file.somf X.npy --kind usage -o usage.png --force",
)
"""All commands that read a model."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_all_commands_end_with_a_result_or_an_error(tmp_path, monkeypatch, good, kind):
    pytest.importorskip("matplotlib", reason="somf plot comes with the extra 'plot'")
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", X)
    n_used = seed = 0
    while n_used < N_COMMANDS:
        seed += 1
        craft(tmp_path / "file.somf", good[kind], np.random.default_rng(seed))
        try:
            somf.load("file.somf")
        except DamagedFileError:
            commands = [COMMANDS[seed % len(COMMANDS)]]
        else:
            commands, n_used = COMMANDS, n_used + 1
        for line in commands:
            run = CliRunner().invoke(application, line.split(), prog_name="somf")
            assert run.exit_code in (0, 1, 2), (seed, line, run.output)
            assert run.exception is None or isinstance(run.exception, SystemExit), (seed, line)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no FIFOs")
def test_a_fifo_is_not_waited_for(somf_command):
    os.mkfifo("pipe.somf")
    with pytest.raises(DamagedFileError, match="not a regular file"):
        somf.load("pipe.somf")
    somf_command("info pipe.somf", code=1)
    assert "not a regular file" in somf_command.errors
    model = DictionaryLearning(2)
    for path in ("pipe.somf", "c"):
        if path == "c":
            os.mkfifo("c.previous")
        with pytest.raises(ValueError, match="checkpoint must"):
            model.set_params(checkpoint=path).fit(X)
    with pytest.raises(OSError, match="not a regular file"):
        model.set_params(checkpoint=None).fit(X).save("pipe.somf")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no FIFOs")
@pytest.mark.parametrize("kind", ["npy", "npz", "h5", "tif", "mat", "png", "hdr"])
def test_a_fifo_of_data_is_not_waited_for(somf_command, kind):
    pytest.importorskip("h5py", reason="HDF5 comes with the extra 'hdf5'")
    os.mkfifo(f"pipe.{kind}")
    somf_command(f"info pipe.{kind}", code=1)
    assert "not a regular file" in somf_command.errors
