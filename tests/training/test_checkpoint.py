"""Fits that are interrupted and go on, and checkpoints that are not what they should be."""

import errno
import json
import logging
import os
import signal
import subprocess
import threading

import numpy as np
import pytest
import scipy.sparse as sp

import somf
from somf import NMF, Checkpoint, DictionaryLearning, MatrixFactorization, SparsePCA
from somf.callbacks import EarlyStopping
from somf.data import Source, epoch_order
from somf.persistence import tensorfile
from tests.helpers.fits import StopError, assert_same_fit, sklearn_clone
from tests.helpers.problems import planted, random_csr


@pytest.fixture(autouse=True)
def _ctrl_c_is_not_ignored():
    """Undo what shells do to jobs in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class StuckSource(Source):
    """A source that gives a few minibatches and then nothing, like a disk that has gone away."""

    def __init__(self, X, n_calls):
        self.X, self.shape, self.dtype = X, X.shape, X.dtype
        self.left, self.missed, self.back = n_calls, threading.Event(), threading.Event()

    def rows(self, ids):
        self.left -= 1
        if self.left < 0:
            self.missed.wait(10)
            os.kill(os.getpid(), signal.SIGINT)
            self.back.wait()
        return self.X[ids]


def stopping_at(*iterations):
    """Return a callback that raises at each of some iterations, once."""
    left = set(iterations)

    def callback(progress):
        if progress.n_iter in left:
            left.remove(progress.n_iter)
            raise StopError

    return callback


def fit_with_stops(model, X, path, iterations, **options):
    """Fit; begin again, with an estimator that knows nothing, whenever a callback has raised."""
    callbacks = [*model.callbacks, stopping_at(*iterations)]
    for _ in iterations:
        with pytest.raises(StopError):
            sklearn_clone(model).set_params(checkpoint=path, callbacks=callbacks).fit(X, **options)
    return sklearn_clone(model).set_params(checkpoint=path, callbacks=callbacks).fit(X, **options)


# Going on


@pytest.mark.parametrize("kind", [MatrixFactorization, DictionaryLearning, SparsePCA, NMF])
@pytest.mark.parametrize("masks", ["blocks", "bernoulli"])
@pytest.mark.parametrize("surrogate", ["online", "incremental"])
@pytest.mark.parametrize("code_estimator", ["averaged", "masked", "exact"])
def test_an_interrupted_fit_equals_an_undisturbed_one(
    toy, tmp_path, kind, masks, surrogate, code_estimator
):
    model = kind(
        5,
        reduction=2.5,
        masks=masks,
        surrogate=surrogate,
        code_estimator=code_estimator,
        batch_size=37,
        n_epochs=3,
        record_every=100,
        random_state=0,
    )
    X = np.abs(toy).astype(np.float32)
    undisturbed = sklearn_clone(model).fit(X, validation=0.2)
    # In the first epoch, at its end, in the middle of a later one, and after the last step.
    n_iter = undisturbed.n_iter_
    resumed = fit_with_stops(model, X, tmp_path / "c", [1, 3, 7, 12, n_iter], validation=0.2)
    assert_same_fit(resumed, undisturbed)


@pytest.mark.parametrize("masks", ["blocks", "bernoulli"])
@pytest.mark.parametrize("surrogate", ["online", "incremental"])
@pytest.mark.parametrize("code_estimator", ["averaged", "masked", "exact"])
@pytest.mark.parametrize(("n_features", "n_halvings"), [(3600, [0, 1]), (100, [3])])
def test_an_interrupted_fit_that_lowers_its_reduction_equals_an_undisturbed_one(
    tmp_path, masks, surrogate, code_estimator, n_features, n_halvings
):
    X = planted(600, n_features, 4, noise=0.1)[0]
    model = DictionaryLearning(
        4,
        reduction="auto",
        masks=masks,
        surrogate=surrogate,
        code_estimator=code_estimator,
        batch_size=50,
        n_epochs=5,
        random_state=0,
    )
    undisturbed = sklearn_clone(model).fit(X)
    before = sklearn_clone(model).set_params(n_epochs=1).fit(X)
    resumed = fit_with_stops(model, X, tmp_path / "c", [1, 23, 25, 47, 49])
    assert_same_fit(resumed, undisturbed)
    found = sorted({before._state.n_halvings, undisturbed._state.n_halvings})
    assert found == n_halvings  # in the course of the fit, and at its start


@pytest.mark.parametrize("kind", [DictionaryLearning, NMF])
def test_an_interrupted_fit_to_sparse_data_equals_an_undisturbed_one(tmp_path, kind):
    X = random_csr(200, 40, 0.2)
    model = kind(4, alpha=0.01, reduction=2, batch_size=30, n_epochs=2, random_state=0)
    undisturbed = sklearn_clone(model).fit(X, validation=X[:50])
    resumed = fit_with_stops(model, X, tmp_path / "c", [2, 9], validation=X[:50])
    assert_same_fit(resumed, undisturbed)


def test_an_interrupted_fit_on_two_threads_equals_an_undisturbed_one(tmp_path):
    X = planted(300, 4000, 32)[0].astype(np.float32)  # enough work to be shared
    model = DictionaryLearning(32, reduction=2, n_epochs=2, n_threads=2, random_state=0)
    undisturbed = sklearn_clone(model).fit(X)
    assert_same_fit(fit_with_stops(model, X, tmp_path / "c", [2, 5, 9]), undisturbed)


def test_without_a_seed_the_fit_goes_on_with_the_seed_that_it_had(toy, tmp_path):
    model = DictionaryLearning(5, reduction=2, n_epochs=2)
    resumed = fit_with_stops(model, toy, tmp_path / "c", [2, 8], validation=0.2)
    model.random_state = FixedSeed(resumed._state.seed)
    assert_same_fit(resumed, model.fit(toy, validation=0.2))


class FixedSeed(np.random.RandomState):
    """A random state from which a given seed is drawn."""

    def __init__(self, seed):
        super().__init__(0)
        self.seed_to_draw = seed

    def randint(self, *_, **__):
        return self.seed_to_draw


def test_an_initial_dictionary_and_a_random_state_do_not_keep_a_fit_from_going_on(toy, tmp_path):
    model = DictionaryLearning(
        5, init=toy[:5].astype(np.float32), n_epochs=2, random_state=np.random.RandomState(3)
    )
    resumed = fit_with_stops(model, toy, tmp_path / "c", [4])
    model.set_params(random_state=np.random.RandomState(3))
    assert_same_fit(resumed, model.fit(toy))


def test_atoms_that_are_replaced_are_replaced_all_the_same(toy, tmp_path):
    init = np.zeros((8, 60))
    init[:2] = toy[:2]
    model = DictionaryLearning(8, init=init, reduction=2, n_epochs=4, batch_size=25, random_state=0)
    undisturbed = sklearn_clone(model).fit(toy)
    assert (undisturbed._state.patience > 300).any()
    assert_same_fit(fit_with_stops(model, toy, tmp_path / "c", [5, 12, 13, 30]), undisturbed)


def test_early_stopping_ends_an_interrupted_fit_where_it_ends_an_undisturbed_one(toy, tmp_path):
    model = DictionaryLearning(
        4, n_epochs=50, batch_size=60, callbacks=[EarlyStopping(patience=2)], random_state=0
    )
    undisturbed = sklearn_clone(model).fit(toy, validation=0.2)
    last = undisturbed.n_iter_
    assert last < 200
    # Also if the fit fails at the very iteration that is the last.
    stops = [3, last - 1, last]
    assert_same_fit(fit_with_stops(model, toy, tmp_path / "c", stops, validation=0.2), undisturbed)


def test_times_add_up_and_callbacks_are_told_where_the_fit_goes_on(toy, tmp_path):
    heard = []
    model = DictionaryLearning(
        4, batch_size=50, callbacks=[lambda p: heard.append(p.n_iter)], record_every=50
    )
    resumed = fit_with_stops(model, toy, tmp_path / "c", [3])
    assert heard == [1, 2, 3, 3, 4, 5, 6]
    for column in ("compute_seconds", "wall_seconds"):
        assert resumed.history_[column] == sorted(resumed.history_[column])


def test_a_finished_fit_is_not_done_again(toy, tmp_path, caplog):
    model = DictionaryLearning(4, n_epochs=2, random_state=0, checkpoint=tmp_path / "c").fit(toy)
    content = (tmp_path / "c").read_bytes()
    with caplog.at_level(logging.INFO, logger="somf"):
        again = DictionaryLearning(4, n_epochs=2, random_state=0, checkpoint=tmp_path / "c")
        again.fit(toy)
    assert_same_fit(again, model)
    assert again.history_ == model.history_
    assert "nothing is left to do" in caplog.text
    assert (tmp_path / "c").read_bytes() == content


def test_more_epochs_go_on_from_a_finished_fit(toy, tmp_path):
    params = {"reduction": 2, "random_state": 0, "n_components": 4}
    DictionaryLearning(**params, checkpoint=tmp_path / "c").fit(toy)
    more = DictionaryLearning(**params, n_epochs=3, checkpoint=tmp_path / "c").fit(toy)
    assert_same_fit(more, DictionaryLearning(**params, n_epochs=3).fit(toy))
    with pytest.raises(ValueError, match="n_epochs must not be less than the checkpoint has done"):
        DictionaryLearning(**params, n_epochs=2, checkpoint=tmp_path / "c").fit(toy)


def test_what_changes_no_result_may_change(toy, tmp_path):
    params = {"n_components": 4, "n_epochs": 2, "random_state": 0, "n_threads": 1}
    with pytest.raises(StopError):
        DictionaryLearning(
            **params, checkpoint=tmp_path / "c", callbacks=[stopping_at(5)], record_every=100
        ).fit(toy)
    changed = params | {"n_threads": 2, "random_state": None, "record_every": 50}
    checkpoint = Checkpoint(str(tmp_path / "c"), every_samples=100)
    resumed = DictionaryLearning(**changed, checkpoint=checkpoint).fit(toy)
    expected = DictionaryLearning(**params).fit(toy)
    np.testing.assert_allclose(resumed.components_, expected.components_, atol=1e-12)


def test_a_checkpoint_is_a_model_as_far_as_it_has_come(toy, tmp_path):
    model = DictionaryLearning(
        4, reduction=2, random_state=0, checkpoint=tmp_path / "c", callbacks=[stopping_at(3)]
    )
    with pytest.raises(StopError):
        model.fit(toy, validation=0.1)
    loaded = somf.load(tmp_path / "c")
    assert (loaded.n_iter_, loaded.n_samples_seen_) == (3, 150)
    assert loaded.checkpoint is None
    assert loaded.transform(toy).shape == (300, 4)
    assert len(loaded._state.memory.ids) == 150  # nothing is written of samples not seen yet
    loaded.partial_fit(toy, sample_ids=np.arange(300))
    assert len(loaded._state.memory.ids) == 300


def test_links_and_changes_of_directory_do_not_lose_the_checkpoint(toy, tmp_path, monkeypatch):
    (tmp_path / "disk").mkdir()
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "c").symlink_to(tmp_path / "disk" / "c")
    monkeypatch.chdir(tmp_path / "here")
    DictionaryLearning(
        4, checkpoint=Checkpoint("c", every_samples=1), callbacks=lambda _: os.chdir(tmp_path)
    ).fit(toy)
    assert sorted(os.listdir(tmp_path / "disk")) == ["c", "c.previous"]
    assert os.listdir(tmp_path / "here") == ["c"]


def test_what_is_remembered_of_samples_goes_back_into_a_scratch_file(toy, tmp_path, monkeypatch):
    monkeypatch.setattr("somf.scratch.SCRATCH_BYTES", 1000)
    model = DictionaryLearning(4, reduction=2, n_epochs=2, random_state=0)
    undisturbed = sklearn_clone(model).fit(toy)
    resumed = fit_with_stops(model, toy, tmp_path / "c", [2, 8])
    assert_same_fit(resumed, undisturbed)
    assert isinstance(resumed._state.memory.code, np.memmap)
    assert not isinstance(resumed._state.D, np.memmap)


# How often


def n_writes(monkeypatch, toy, **params):
    count = []
    write = tensorfile.write
    monkeypatch.setattr(tensorfile, "write", lambda *args: (count.append(1), write(*args)))
    DictionaryLearning(4, batch_size=10, random_state=0, **params).fit(toy)
    return len(count)


def test_checkpoints_are_written_as_often_as_asked_for(toy, tmp_path, monkeypatch):
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


# Other fits


def interrupted(toy, path, **params):
    params = {"n_components": 4, "reduction": 2, "random_state": 0, "batch_size": 30} | params
    model = DictionaryLearning(**params, checkpoint=path, callbacks=[stopping_at(4)])
    with pytest.raises(StopError):
        model.fit(toy)
    return params | {"checkpoint": path}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": 0.2}, "alpha: 0.1 then, 0.2 now"),
        ({"n_components": 5}, "n_components: 4 then, 5 now"),
        ({"masks": "bernoulli"}, "masks: 'blocks' then, 'bernoulli' now"),
        ({"surrogate": "incremental"}, "surrogate: 'online' then, 'incremental' now"),
        ({"batch_size": 31}, "batch_size: 30 then, 31 now"),
        ({"dtype": "float32"}, "dtype: None then, 'float32' now"),
        ({"random_state": 1}, "random_state: 0 then, 1 now"),
        ({"init": "random"}, "init: another one then"),
        ({"init": np.eye(4, 60)}, "init: another one then"),
        ({"reduction": 3, "code_tol": 0.1}, "code_tol: 0.001 then, 0.1 now; reduction: 2 then, 3"),
    ],
    ids=str,
)
def test_other_parameters_are_refused_by_name(toy, tmp_path, change, message):
    params = interrupted(toy, tmp_path / "c")
    content = (tmp_path / "c").read_bytes()
    with pytest.raises(ValueError, match=message) as caught:
        DictionaryLearning(**params | change).fit(toy)
    assert str(tmp_path / "c") in str(caught.value)
    assert (tmp_path / "c").read_bytes() == content


def test_another_estimator_is_refused_by_name(toy, tmp_path):
    params = interrupted(toy, tmp_path / "c")
    with pytest.raises(ValueError, match="estimator: 'DictionaryLearning' then, 'SparsePCA' now"):
        SparsePCA(**params).fit(toy)


def changed(X, row):
    X = X.copy()
    X[row] *= 1.001
    return X


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X: X[:-1], r"X \(shape\): \[300, 60\] then, \[299, 60\] now"),
        (lambda X: X[:, :-1], r"X \(shape\): \[300, 60\] then, \[300, 59\] now"),
        (lambda X: X.astype(np.float32), r"X \(dtype\): 'float64' then, 'float32' now"),
        (lambda X: changed(X, 0), r"X \(content of sampled rows\)"),
        (lambda X: changed(X, 299), r"X \(content of sampled rows\)"),
        (lambda X: X[::-1], r"X \(content of sampled rows\)"),
        (sp.csr_array, r"X \(content of sampled rows\)"),
    ],
    ids=range(7),
)
def test_other_data_is_refused_by_name(toy, tmp_path, change, message):
    params = interrupted(toy, tmp_path / "c")
    with pytest.raises(ValueError, match=message):
        DictionaryLearning(**params).fit(change(toy))


def test_the_same_data_in_another_place_is_the_same(toy, tmp_path):
    params = interrupted(toy, tmp_path / "c")
    np.save(tmp_path / "X.npy", toy)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    resumed = DictionaryLearning(**params).fit(mapped)
    assert_same_fit(resumed, DictionaryLearning(**params | {"checkpoint": None}).fit(toy))


def test_the_same_data_in_another_order_of_storage_is_refused(toy, tmp_path):
    h5py = pytest.importorskip("h5py", reason="HDF5 needs somf[hdf5]")
    np.save(tmp_path / "X.npy", toy)
    with h5py.File(tmp_path / "X.h5", "w") as file:
        file.create_dataset("X", data=toy, chunks=(8, toy.shape[1]))
    params = {"checkpoint": tmp_path / "c", "batch_size": 30, "random_state": 0}
    with pytest.raises(StopError):
        DictionaryLearning(4, **params, callbacks=stopping_at(3)).fit(tmp_path / "X.npy")
    with pytest.raises(ValueError, match=r"X \(storage\): 'rows' then, '\d+ chunks"):
        DictionaryLearning(4, **params).fit(tmp_path / "X.h5")


def test_an_error_of_validation_data_writes_a_checkpoint(toy, tmp_path):
    class FailingSource(StuckSource):
        def rows(self, ids):
            self.left -= 1
            if self.left < 0:
                raise StopError
            return self.X[ids]

    validation = FailingSource(toy[:50], 1 + 2)  # fingerprint, two records
    model = DictionaryLearning(4, batch_size=30, record_every=90, checkpoint=tmp_path / "c")
    with pytest.raises(StopError) as caught:
        model.fit(toy, validation=validation)
    assert str(tmp_path / "c") in caught.value.__notes__[0]
    assert somf.load(tmp_path / "c").n_iter_ == 6


@pytest.mark.parametrize("size", [0, 1000])
def test_a_damaged_backup_does_not_keep_a_fit_from_going_on(toy, tmp_path, size):
    params = {"checkpoint": tmp_path / "c", "batch_size": 30, "random_state": 0}
    with pytest.raises(StopError):
        DictionaryLearning(4, **params, callbacks=stopping_at(3)).fit(toy)
    backup = tmp_path / "c.previous"
    backup.write_bytes(backup.read_bytes()[:size])
    resumed = DictionaryLearning(4, **params).fit(toy)
    assert_same_fit(resumed, DictionaryLearning(4, batch_size=30, random_state=0).fit(toy))


@pytest.mark.parametrize("other", [None, 0.1, "data"])
def test_other_validation_data_is_refused_by_name(toy, tmp_path, other):
    model = DictionaryLearning(
        4, random_state=0, checkpoint=tmp_path / "c", callbacks=[stopping_at(2)]
    )
    with pytest.raises(StopError):
        model.fit(toy, validation=0.2)
    with pytest.raises(ValueError, match=r"validation: 0\.2 then"):
        model.fit(toy, validation=toy if other == "data" else other)


def test_only_a_bounded_number_of_rows_is_compared(toy, tmp_path):
    asked = []

    class Large(Source):
        shape, dtype = (10**9, 60), np.dtype(float)

        def rows(self, ids):
            asked.append(ids)
            raise StopError

    with pytest.raises(StopError):
        DictionaryLearning(4, checkpoint=tmp_path / "c").fit(Large())
    assert len(asked[0]) == 32
    assert asked[0][0] == 0
    assert asked[0][-1] == 10**9 - 1


# SignalGuard


@pytest.mark.parametrize(
    ("signum", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)
def test_a_signal_finishes_the_step_and_writes_a_checkpoint(toy, tmp_path, caplog, signum, error):
    def send(progress):
        if progress.n_iter == 4:
            signal.raise_signal(signum)

    before = signal.getsignal(signum)
    params = {"n_components": 4, "batch_size": 30, "random_state": 0}
    model = DictionaryLearning(**params, checkpoint=tmp_path / "c", callbacks=send)
    with pytest.raises(error) as caught:
        model.fit(toy)
    if signum == signal.SIGTERM:
        assert caught.value.code == 143
    assert signal.getsignal(signum) is before
    assert somf.load(tmp_path / "c").n_iter_ == 4
    assert str(tmp_path / "c") in caplog.text
    assert "the same call of fit resumes" in caplog.text
    resumed = DictionaryLearning(**params, checkpoint=tmp_path / "c").fit(toy)
    assert_same_fit(resumed, DictionaryLearning(**params).fit(toy))


def test_ctrl_c_ends_a_fit_that_waits_for_a_source_that_is_stuck(toy, tmp_path, monkeypatch):
    monkeypatch.setattr("somf.data.readahead.background.JOIN_TIMEOUT", 0.1)
    source = StuckSource(toy, 2 + 5)  # fingerprint, initial atoms, minibatches
    params = {"n_components": 4, "batch_size": 30, "random_state": 0, "checkpoint": tmp_path / "c"}

    def miss(progress):
        if progress.n_iter == 5:
            source.missed.set()

    try:
        with pytest.raises(KeyboardInterrupt):
            DictionaryLearning(**params, callbacks=miss).fit(source)
    finally:
        source.back.set()
    assert somf.load(tmp_path / "c").n_iter_ == 5
    undisturbed = DictionaryLearning(4, batch_size=30, random_state=0).fit(toy)
    assert_same_fit(DictionaryLearning(**params).fit(toy), undisturbed)


def test_handlers_of_the_caller_are_asked_and_restored(toy, tmp_path):
    heard = []

    def handler(signum, _):
        heard.append(signum)

    def send(progress):
        if progress.n_iter == 2:
            signal.raise_signal(signal.SIGTERM)
            assert heard == []  # it has to wait for the end of the step

    before = signal.signal(signal.SIGTERM, handler)
    try:
        model = DictionaryLearning(4, checkpoint=tmp_path / "c", callbacks=send).fit(toy)
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [signal.SIGTERM]
    assert model.n_samples_seen_ == 300


def test_handlers_are_left_alone_without_a_checkpoint_and_in_other_threads(toy, tmp_path):
    seen = []

    def look(_):
        seen.append(signal.getsignal(signal.SIGINT))

    DictionaryLearning(4, callbacks=look).fit(toy)
    model = DictionaryLearning(4, callbacks=look, checkpoint=tmp_path / "c")
    thread = threading.Thread(target=model.fit, args=(toy,))
    thread.start()
    thread.join()
    assert set(seen) == {signal.getsignal(signal.SIGINT)}
    assert hasattr(model, "components_")


def test_a_second_ctrl_c_does_not_wait(toy, tmp_path):
    class Hanging(Source):
        shape, dtype, n_calls = toy.shape, toy.dtype, 0

        def rows(self, ids):
            self.n_calls += 1
            if self.n_calls == 5:
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGINT)
                raise AssertionError("this would hang")
            return toy[ids]

    with pytest.raises(KeyboardInterrupt):
        DictionaryLearning(4, checkpoint=tmp_path / "c").fit(Hanging())
    somf.load(tmp_path / "c")


# Errors


def with_nan(toy, params, position):
    """Return data with a NaN in the row that a fit visits at some position, and the row."""
    seed = DictionaryLearning(**params).fit(toy)._state.seed
    row = epoch_order(np.arange(300), seed, 0)[position]
    X = toy.copy()
    X[row, 3] = np.nan
    return X, row


NAN = {"n_components": 4, "batch_size": 10, "init": "random", "random_state": 0}


@pytest.mark.parametrize("position", [0, 155, 299])
def test_a_row_that_is_not_finite_is_named_and_what_was_learned_before_is_kept(
    toy, tmp_path, position, monkeypatch
):
    monkeypatch.setattr("somf.training.identity.SAMPLED_ROWS", 1)
    X, row = with_nan(toy, NAN, position)
    params = NAN | {"checkpoint": tmp_path / "c"}
    with pytest.raises(ValueError, match=f"X must be finite, got NaN in row {row}") as caught:
        DictionaryLearning(**params).fit(X)
    (note,) = caught.value.__notes__
    assert str(tmp_path / "c") in note
    assert somf.load(tmp_path / "c").n_iter_ == position // 10
    # Mended, the data is the same as far as can be seen, and the fit goes on with that very batch.
    resumed = DictionaryLearning(**params).fit(toy)
    assert_same_fit(resumed, DictionaryLearning(**NAN).fit(toy))


def test_an_error_of_a_source_leaves_a_checkpoint_of_the_state_before(toy, tmp_path):
    class Flaky(Source):
        shape, dtype, n_calls = toy.shape, toy.dtype, 0

        def rows(self, ids):
            self.n_calls += 1
            if self.n_calls == 7:
                raise OSError("the disk is gone")
            return toy[ids]

    params = {"n_components": 4, "batch_size": 30, "random_state": 0}
    source = Flaky()
    with pytest.raises(OSError, match="the disk is gone"):
        DictionaryLearning(**params, checkpoint=tmp_path / "c").fit(source)
    # One call for the fingerprint, one for the initial atoms, four steps.
    assert somf.load(tmp_path / "c").n_iter_ == 4
    resumed = DictionaryLearning(**params, checkpoint=tmp_path / "c").fit(source)
    assert_same_fit(resumed, DictionaryLearning(**params).fit(toy))


def test_an_error_in_the_middle_of_a_step_does_not_get_into_the_checkpoint(
    toy, tmp_path, monkeypatch
):
    params = {"n_components": 4, "batch_size": 30, "random_state": 0}
    checkpoint = Checkpoint(tmp_path / "c", every_samples=30)
    update = somf.algorithm.dictionary.Dictionary.update

    def fails(self, subset):
        if self.state.n_iter == 3:
            raise MemoryError
        update(self, subset)

    with monkeypatch.context() as patch:
        patch.setattr(somf.algorithm.dictionary.Dictionary, "update", fails)
        with pytest.raises(MemoryError):
            DictionaryLearning(**params, checkpoint=checkpoint).fit(toy)
    resumed = DictionaryLearning(**params, checkpoint=checkpoint).fit(toy)
    assert_same_fit(resumed, DictionaryLearning(**params).fit(toy))


@pytest.mark.parametrize("sample_ids", [None, np.arange(50)])
def test_ctrl_c_never_leaves_half_a_step_of_partial_fit_in_the_model(toy, monkeypatch, sample_ids):
    model = DictionaryLearning(4, reduction=2, batch_size=50, random_state=0)
    expected = DictionaryLearning(4, reduction=2, batch_size=50, random_state=0)
    update = somf.algorithm.dictionary.Dictionary.update

    def interrupt(self, subset):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        update(self, subset)

    monkeypatch.setattr(somf.algorithm.dictionary.Dictionary, "update", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(toy[:50], sample_ids=sample_ids)
    monkeypatch.undo()
    expected.partial_fit(toy[:50], sample_ids=sample_ids)
    assert model.n_iter_ == 1
    for name, array in expected._state.arrays().items():
        np.testing.assert_array_equal(model._state.arrays()[name], array, err_msg=name)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# A full disk


def full_disk(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_at_the_beginning_is_reported_at_once(toy, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        DictionaryLearning(4, checkpoint=tmp_path / "c").fit(toy)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("path", ["missing/c", "."])
def test_a_place_that_cannot_be_written_to_is_reported_at_once(toy, tmp_path, path):
    with pytest.raises(ValueError, match="checkpoint must be a file in a folder that exists"):
        DictionaryLearning(4, checkpoint=tmp_path / path).fit(toy)


def test_statistics_of_samples_that_no_disk_can_hold_are_an_error(toy, monkeypatch):
    monkeypatch.setattr("somf.scratch.SCRATCH_BYTES", 1000)
    monkeypatch.setattr(os, "posix_fallocate", full_disk)
    with pytest.raises(OSError, match=r"[0-9,]+ bytes are needed in .* Set TMPDIR"):
        DictionaryLearning(4).fit(toy)


def test_a_full_disk_leaves_the_last_good_checkpoint_and_the_fit_goes_on(
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
        batch_size=30,
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
    """Return a folder on a disk of 64 kB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
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
                (small_disk / "filling").write_bytes(bytes(2**17))

    model = DictionaryLearning(
        4,
        reduction=1,
        batch_size=30,
        callbacks=fill,
        checkpoint=Checkpoint(small_disk / "c", every_samples=30),
    )
    with pytest.warns(RuntimeWarning, match="No space left on device"):
        model.fit(toy)
    assert model.n_iter_ == 10
    assert somf.load(small_disk / "c").n_iter_ == 4
    (small_disk / "filling").unlink()
    more = DictionaryLearning(4, reduction=1, batch_size=30, checkpoint=small_disk / "c").fit(toy)
    np.testing.assert_array_equal(more.components_, model.components_)


def test_what_goes_wrong_while_an_error_is_dealt_with_does_not_hide_the_error(
    toy, tmp_path, monkeypatch
):
    X, row = with_nan(toy, NAN, 155)

    def fill_the_disk(_):
        monkeypatch.setattr(os, "fsync", full_disk)

    model = DictionaryLearning(**NAN, checkpoint=tmp_path / "c", callbacks=fill_the_disk)
    with (
        pytest.warns(RuntimeWarning, match="No space left"),
        pytest.raises(ValueError, match=f"NaN in row {row}") as caught,
    ):
        model.fit(X)
    assert "could not be written" in caught.value.__notes__[0]


# Files that are not what they should be


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
def test_the_file_of_somebody_else_is_never_overwritten(toy, tmp_path, name, kind):
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
def test_the_file_of_somebody_else_is_not_overwritten_beside_a_good_checkpoint(toy, tmp_path, kind):
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
