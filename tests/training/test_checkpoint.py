"""When checkpoints are written, full disks, and files that are not what they should be."""

import json
import os
import subprocess

import numpy as np
import pytest

import somf
from somf import Checkpoint, DictionaryLearning
from somf.persistence import tensorfile
from tests.helpers.fits import StopError, assert_same_fit, full_disk, interrupted, stopping_at


def n_writes(monkeypatch, toy, **params):
    count = []
    write = tensorfile.write
    monkeypatch.setattr(tensorfile, "write", lambda *args: (count.append(1), write(*args)))
    DictionaryLearning(4, batch_size=10, n_epochs=1, random_state=0, **params).fit(toy)
    return len(count)


def test_checkpoints_are_written_as_often_as_requested(toy, tmp_path, monkeypatch):
    def count(name, **policy):
        with monkeypatch.context() as patch:
            return n_writes(patch, toy, checkpoint=Checkpoint(tmp_path / name, **policy))

    # 300 samples in 30 iterations, one checkpoint at the start and one at the end.
    assert count("default") == 2
    assert count("samples", every_samples=100) == 2 + 3
    assert count("seconds", every_seconds=0) == 2 + 30
    assert count("hours", every_seconds=3600) == 2
    assert count("both", every_seconds=3600, every_samples=150) == 2 + 2


def test_checkpoints_that_take_long_are_written_less_often(toy, tmp_path, monkeypatch):
    clock = {"now": 0.0}
    monkeypatch.setattr("somf.training.checkpoint.perf_counter", lambda: clock["now"])
    moments = []
    write = tensorfile.write

    def slow_write(*args):
        moments.append(clock["now"])
        clock["now"] += 30.0
        write(*args)

    def tick(_):
        clock["now"] += 50.0

    monkeypatch.setattr(tensorfile, "write", slow_write)
    DictionaryLearning(4, batch_size=5, callbacks=tick, checkpoint=tmp_path / "c").fit(toy)
    waits = np.diff(moments[:-1]) - 30.0
    assert len(waits) > 2
    assert (waits >= 30.0 / 0.05).all()


@pytest.mark.parametrize(
    ("checkpoint", "error", "message"),
    [
        (3, TypeError, "checkpoint must be None, a path or a somf.Checkpoint, got 3"),
        (Checkpoint("c", every_seconds=-1), ValueError, "every_seconds must be at least 0, got -1"),
        (Checkpoint("c", every_samples=0), ValueError, "every_samples must be at least 1, got 0"),
        (Checkpoint("c", every_samples=1.5), TypeError, "every_samples must be an integer"),
    ],
)
def test_a_bad_request_is_refused(toy, checkpoint, error, message):
    with pytest.raises(error, match=message):
        DictionaryLearning(4, checkpoint=checkpoint).fit(toy)


def test_a_full_disk_at_the_beginning_is_reported_at_once(toy, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        DictionaryLearning(4, checkpoint=tmp_path / "c").fit(toy)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("path", ["missing/c", "."])
def test_a_place_that_cannot_be_written_to_is_reported_at_once(toy, tmp_path, path):
    with pytest.raises(
        ValueError, match="checkpoint must be a regular file in a folder that exists"
    ):
        DictionaryLearning(4, checkpoint=tmp_path / path).fit(toy)


def test_statistics_of_samples_that_no_disk_can_hold_are_an_error(toy, monkeypatch):
    monkeypatch.setattr("somf.scratch.SCRATCH_BYTES", 1000)
    monkeypatch.setattr(os, "posix_fallocate", full_disk)
    with pytest.raises(OSError, match=r"[0-9,]+ bytes are needed in .* Set TMPDIR"):
        DictionaryLearning(4, reduction=4).fit(toy)


def test_a_full_disk_leaves_the_last_good_checkpoint_and_the_fit_continues(
    toy, tmp_path, monkeypatch
):
    params = {"n_components": 4, "batch_size": 30, "random_state": 0}
    kept = []

    def fill_and_empty_the_disk(progress):
        if progress.n_iter == 4:
            monkeypatch.setattr(os, "fsync", full_disk)
        if progress.n_iter == 6:
            kept.append(somf.load(tmp_path / "c").n_iter_)
            kept.append(sorted(os.listdir(tmp_path)))
            monkeypatch.undo()
        if progress.n_iter == 8:
            kept.append(somf.load(tmp_path / "c").n_iter_)

    model = DictionaryLearning(
        **params,
        checkpoint=Checkpoint(tmp_path / "c", every_samples=30),
        callbacks=fill_and_empty_the_disk,
    )
    with pytest.warns(RuntimeWarning, match="No space left on device"):
        model.fit(toy)
    assert kept == [3, ["c", "c.lock", "c.previous"], 7]
    np.testing.assert_array_equal(
        model.components_, DictionaryLearning(**params).fit(toy).components_
    )


def test_a_quota_in_the_middle_of_a_file_leaves_the_last_good_checkpoint(toy, tmp_path):
    resource = pytest.importorskip("resource", reason="quotas are those of POSIX")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def set_quota(progress):
        if progress.n_iter == 5:
            resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))

    model = DictionaryLearning(
        4,
        reduction=4,
        batch_size=30,
        n_epochs=1,
        callbacks=set_quota,
        random_state=0,
        checkpoint=Checkpoint(tmp_path / "c", every_samples=30),
    )
    try:
        with pytest.warns(RuntimeWarning, match="File too large"):
            model.fit(toy)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert model.n_iter_ == 10
    assert somf.load(tmp_path / "c").n_iter_ == 4
    assert sorted(os.listdir(tmp_path)) == ["c", "c.previous"]


@pytest.fixture
def small_disk(tmp_path):
    """Return a folder on a disk of 128 kB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("a small disk takes the right to mount one")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_runs_full_leaves_the_last_good_checkpoint(toy, small_disk):
    def fill(progress):
        if progress.n_iter == 5:
            with pytest.raises(OSError, match="No space left"):
                (small_disk / "filling").write_bytes(bytes(2**18))

    model = DictionaryLearning(
        4,
        reduction=1,
        batch_size=30,
        n_epochs=1,
        callbacks=fill,
        checkpoint=Checkpoint(small_disk / "c", every_samples=30),
    )
    with pytest.warns(RuntimeWarning, match="No space left on device"):
        model.fit(toy)
    assert model.n_iter_ == 10
    assert somf.load(small_disk / "c").n_iter_ == 4
    (small_disk / "filling").unlink()
    more = DictionaryLearning(
        4, reduction=1, batch_size=30, n_epochs=1, checkpoint=small_disk / "c"
    ).fit(toy)
    np.testing.assert_array_equal(more.components_, model.components_)


def damage(path, position=-1):
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("how", ["flipped", "truncated", "empty"])
def test_a_damaged_checkpoint_gives_way_to_the_one_before(toy, tmp_path, how):
    path = tmp_path / "c"
    params = {"n_components": 4, "batch_size": 30, "random_state": 0}
    params |= {"checkpoint": Checkpoint(path, every_samples=30)}
    with pytest.raises(StopError):
        DictionaryLearning(**params, callbacks=[stopping_at(4)]).fit(toy)
    assert somf.load(f"{path}.previous").n_iter_ < somf.load(path).n_iter_
    if how == "flipped":
        damage(path)
    else:
        os.truncate(path, 0 if how == "empty" else path.stat().st_size // 2)
    model = DictionaryLearning(**params)
    content = path.read_bytes()
    with pytest.warns(RuntimeWarning, match="damaged.*resumes from.*c.previous"):
        model.fit(toy)
    assert (tmp_path / "c.damaged").read_bytes() == content
    assert_same_fit(model, DictionaryLearning(**params | {"checkpoint": None}).fit(toy))


def test_a_fit_whose_checkpoint_was_removed_starts_again(toy, tmp_path, caplog):
    steps = []
    params = interrupted(toy, tmp_path / "c")
    (tmp_path / "c").unlink()
    assert somf.load(tmp_path / "c.previous")
    model = DictionaryLearning(**params, callbacks=lambda p: steps.append(p.n_iter)).fit(toy)
    assert steps[0] == 1
    assert "c.previous, is not used" in caplog.text
    assert_same_fit(model, DictionaryLearning(**params | {"checkpoint": None}).fit(toy))
    # Also after a fit with other parameters, whose checkpoint is of no use.
    (tmp_path / "c").unlink()
    DictionaryLearning(**params | {"n_components": 5}).fit(toy)


def test_two_damaged_checkpoints_are_reported_and_left_alone(toy, tmp_path):
    params = interrupted(toy, tmp_path / "c")
    for name in ("c", "c.previous"):
        damage(tmp_path / name)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ValueError, match=r"c' is not .*damaged.*c\.previous' is not .*damaged"):
        DictionaryLearning(**params).fit(toy)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("name", ["c", "c.previous"])
@pytest.mark.parametrize("kind", ["thesis", "model", "nothing"])
def test_another_file_is_never_overwritten(toy, tmp_path, name, kind):
    if kind == "model":
        DictionaryLearning(4).fit(toy).save(tmp_path / name, state=True)
    else:
        (tmp_path / name).write_text("Chapter 1. Introduction" if kind == "thesis" else "")
    before = (tmp_path / name).read_bytes()
    with pytest.raises(ValueError, match=rf"{name}'"):
        DictionaryLearning(4, checkpoint=tmp_path / "c").fit(toy)
    assert os.listdir(tmp_path) == [name]
    assert (tmp_path / name).read_bytes() == before


@pytest.mark.parametrize("kind", ["thesis", "model"])
def test_another_file_is_not_overwritten_beside_a_good_checkpoint(toy, tmp_path, kind):
    params = interrupted(toy, tmp_path / "c")
    if kind == "model":
        DictionaryLearning(4).fit(toy).save(tmp_path / "c.previous")
    else:
        (tmp_path / "c.previous").write_text("Chapter 1. Introduction")
    before = (tmp_path / "c.previous").read_bytes()
    with pytest.raises(ValueError, match=r"c\.previous'"):
        DictionaryLearning(**params).fit(toy)
    assert (tmp_path / "c.previous").read_bytes() == before


def test_leftovers_of_killed_processes_are_removed_and_nothing_else(toy, tmp_path):
    for name in ("c.abcd1234.part", "c.mine.part", "cc.abcd1234.part", "thesis.part"):
        (tmp_path / name).touch()
    DictionaryLearning(4, checkpoint=tmp_path / "c").fit(toy)
    expected = ["c", "c.mine.part", "c.previous", "cc.abcd1234.part", "thesis.part"]
    assert sorted(os.listdir(tmp_path)) == expected


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f["fit"].pop("data"),
        lambda f: f["fit"].pop("wall_seconds"),
        lambda f: f["fit"].update(objective="good"),
        lambda f: f["fit"].update(n_unused=float("inf")),
        lambda f: f["params"].pop("init"),
        lambda f: f["history"].pop("n_iter"),
        lambda f: f["history"]["n_iter"].append(3),
        lambda f: f["counters"].update(n_samples_seen=-30),
        lambda f: f["counters"].update(seed=f["counters"]["seed"] + 1),
        lambda f: f.update(n_iter=float("inf")),
        lambda f: f.update(fit=3),
    ],
    ids=range(11),
)
def test_a_checkpoint_that_makes_no_sense_is_refused_by_name(toy, tmp_path, change):
    path = tmp_path / "c"
    params = interrupted(toy, path) | {"random_state": None}
    tensors, text = tensorfile.read(path)
    fields = json.loads(text)
    change(fields)
    (tmp_path / "c.previous").unlink()
    tensorfile.write(path, tensors, json.dumps(fields))
    with pytest.raises(ValueError, match=r"c' is not a somf"):
        DictionaryLearning(**params).fit(toy)


@pytest.mark.parametrize(
    "change",
    [
        {"state.memory.ids": np.arange(120) + 250},
        {"state.memory.ids": np.arange(120) - 1},
        {"state.memory.ids": np.zeros(120, dtype=np.int64)},
        {"state.memory.beta": np.zeros((119, 4))},
        {"state.D": np.zeros((60, 3))},
        {"state.D": np.full((60, 4), np.nan)},
        {"state.B": np.zeros((60, 4), dtype=np.float32)},
    ],
    ids=range(7),
)
def test_a_checkpoint_whose_arrays_make_no_sense_is_refused_by_name(toy, tmp_path, change):
    path = tmp_path / "c"
    params = interrupted(toy, path)
    tensors, text = tensorfile.read(path)
    (tmp_path / "c.previous").unlink()
    tensorfile.write(path, tensors | change, text)
    with pytest.raises(ValueError, match=r"c' is not a somf"):
        DictionaryLearning(**params).fit(toy)


@pytest.mark.parametrize("size", [0, 1000])
def test_a_damaged_backup_does_not_keep_a_fit_from_resuming(toy, tmp_path, size):
    params = {"checkpoint": tmp_path / "c", "batch_size": 30, "random_state": 0}
    with pytest.raises(StopError):
        DictionaryLearning(4, **params, callbacks=stopping_at(3)).fit(toy)
    backup = tmp_path / "c.previous"
    backup.write_bytes(backup.read_bytes()[:size])
    resumed = DictionaryLearning(4, **params).fit(toy)
    assert_same_fit(resumed, DictionaryLearning(4, batch_size=30, random_state=0).fit(toy))
