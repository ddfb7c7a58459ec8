"""Ctrl-C and SIGTERM at every moment of a fit: it ends, says how to resume, and loses nothing.

Signals while kernels are compiled also end everything else that runs kernels.
"""

import logging
import os
import signal
import threading
from contextlib import contextmanager

import numpy as np
import pytest

import somf
from somf import Checkpoint, DictionaryLearning
from somf.algorithm.solver import Solver
from somf.inference.coding import Coder
from somf.persistence import tensorfile
from somf.training import checkpoint, fitting
from somf.training.signals import prompt_signals
from tests.helpers.compiling import compile_and_interrupt
from tests.helpers.fits import StuckSource, Trouble, assert_same_fit
from tests.helpers.problems import planted
from tests.helpers.sources import WatchedSource

DATA = planted(48, 12, 4)[0]
ENDS = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: SystemExit}


@pytest.fixture(autouse=True)
def _handlers():
    """Undo what shells do to jobs in the background; check that a fit leaves the handlers alone."""
    before = {signum: signal.getsignal(signum) for signum in ENDS}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is before[signal.SIGTERM]
    signal.signal(signal.SIGINT, before[signal.SIGINT])


def fit(X=DATA, **params):
    params = {"n_epochs": 2, "batch_size": 12, "reduction": 2, "random_state": 0} | params
    return DictionaryLearning(3, **params).fit(X, validation=0.25)


@pytest.fixture(scope="module")
def undisturbed():
    return fit()


def assert_resumes(path, undisturbed, caplog):
    """Check that the user was told how to resume, and that it works."""
    assert str(path) in caplog.text
    assert "the same call of fit resumes from it" in caplog.text
    assert not [name for name in os.listdir(path.parent) if name.endswith((".part", ".lock"))]
    somf.load(path)
    assert_same_fit(fit(checkpoint=path), undisturbed)


# While a checkpoint is written


class Signals:
    """Sends a signal before or after the n-th call of a function, once it is armed."""

    def __init__(self, n, is_before):
        self.left, self.is_before, self.is_armed = n, is_before, False

    def around(self, function):
        def called(*args, **options):
            self.left -= self.is_armed
            is_due = self.is_armed and self.left == 0
            if is_due and self.is_before:
                signal.raise_signal(signal.SIGINT)
            result = function(*args, **options)
            if is_due and not self.is_before:
                signal.raise_signal(signal.SIGINT)
            return result

        return called


@contextmanager
def patched(name, signals):
    with pytest.MonkeyPatch.context() as patch:
        where = tensorfile if name == "_pieces" else os
        patch.setattr(where, name, signals.around(getattr(where, name)))
        yield


@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("is_second", [True, False], ids=["second", "first"])
@pytest.mark.parametrize("name", ["open", "close", "fsync", "link", "replace", "unlink", "_pieces"])
def test_ctrl_c_at_any_system_call_of_a_checkpoint_ends_the_fit(
    tmp_path, undisturbed, caplog, name, is_second, is_before
):
    n = 0
    while True:
        n += 1
        path = tmp_path / str(n) / "c"
        path.parent.mkdir()
        caplog.clear()
        signals = Signals(n, is_before)

        def arm(progress, signals=signals):
            if progress.n_iter == 3 and not signals.is_armed:
                if is_second:
                    signal.raise_signal(signal.SIGINT)
                signals.is_armed = True

        request = Checkpoint(path, every_samples=None if is_second else 36)
        try:
            with patched(name, signals):
                fit(checkpoint=request, callbacks=arm)
        except KeyboardInterrupt:
            is_ended = True
        else:
            is_ended = False
        if signals.left > 0:  # fewer calls than that
            break
        assert is_ended
        assert_resumes(path, undisturbed, caplog)
    assert n > 1 or name == "unlink"


# Before the loop


@pytest.mark.parametrize("signum", ENDS)
@pytest.mark.parametrize("is_resumed", [True, False], ids=["resumed", "new"])
@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize(
    ("where", "name"),
    [
        (checkpoint, "remove_leftovers"),
        (checkpoint.CheckpointManager, "resume"),
        (fitting, "hold_out"),
        (fitting, "resolve_alpha"),
        (fitting, "start"),
        (fitting, "_validation_set"),
    ],
)
def test_a_signal_before_the_loop_ends_the_fit(
    tmp_path, undisturbed, caplog, monkeypatch, signum, is_resumed, is_before, where, name
):
    path = tmp_path / "c"
    if is_resumed:
        with pytest.raises(KeyboardInterrupt):
            fit(checkpoint=path, callbacks=lambda _: signal.raise_signal(signal.SIGINT))
        caplog.clear()
        if name in ("resolve_alpha", "start"):
            return  # these are called only once
    function = getattr(where, name)

    def interrupted(*args, **options):
        result = None if is_before else function(*args, **options)
        signal.raise_signal(signum)
        raise AssertionError("the signal was deferred", result)

    with monkeypatch.context() as patch:
        patch.setattr(where, name, interrupted)
        with pytest.raises(ENDS[signum]):
            fit(checkpoint=path)
    if is_resumed:
        assert_resumes(path, undisturbed, caplog)
    else:
        assert not caplog.text
        assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("has_checkpoint", [True, False])
@pytest.mark.parametrize("params", [{}, {"alpha": "auto"}], ids=["alpha", "auto"])
def test_ctrl_c_at_any_read_ends_the_fit(tmp_path, caplog, has_checkpoint, params):
    undisturbed = fit(**params)
    paths = (tmp_path / str(n) / "c" for n in range(1, 1000))
    n = 0
    while True:
        n += 1
        path = next(paths) if has_checkpoint else None
        if path is not None:
            path.parent.mkdir()
        caplog.clear()
        trouble = Trouble(lambda: signal.raise_signal(signal.SIGINT), n)
        try:
            fit(WatchedSource(DATA, trouble.call, is_in_memory=True), checkpoint=path, **params)
        except KeyboardInterrupt:
            assert trouble.n_calls == n  # at once
        else:
            break
        if path is not None:
            has_checkpoint_left, says_so = path.exists(), "resumes from it" in caplog.text
            with caplog.at_level(logging.INFO, "somf"):
                assert_same_fit(fit(checkpoint=path, **params), undisturbed)
            # The fit may be over: then it reads once more to measure how good it is.
            is_over = "nothing is left to do" in caplog.text
            assert has_checkpoint_left == (says_so or is_over)
    assert trouble.n_calls < n
    assert n > 8


def test_ctrl_c_in_the_first_checkpoint_ends_the_fit(tmp_path, undisturbed, caplog, monkeypatch):
    fsync, heard = os.fsync, []

    def interrupt(handle):
        if not heard:
            heard.append(signal.raise_signal(signal.SIGINT))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fit(checkpoint=tmp_path / "c")
    assert_resumes(tmp_path / "c", undisturbed, caplog)


# While kernels are compiled


@pytest.mark.parametrize("has_checkpoint", [True, False])
@pytest.mark.parametrize("n", [1, 2, 3, 5])  # fingerprint or initial atoms, …, loop
def test_ctrl_c_while_kernels_are_compiled_is_not_lost(tmp_path, caplog, has_checkpoint, n):
    X = WatchedSource(DATA, Trouble(compile_and_interrupt, n).call, is_in_memory=True)
    with pytest.raises(KeyboardInterrupt):
        fit(X, checkpoint=tmp_path / "c" if has_checkpoint else None)
    assert ("resumes from it" in caplog.text) == (has_checkpoint and n > 2)


def test_ctrl_c_while_the_first_step_is_compiled_is_not_lost(monkeypatch):
    monkeypatch.setattr(Solver, "step", lambda *_: compile_and_interrupt())
    with pytest.raises(KeyboardInterrupt):
        fit()


@pytest.mark.parametrize("name", ["transform", "score", "objective", "stationarity_gap", "measure"])
@pytest.mark.parametrize("is_in_read", [True, False], ids=["read", "codes"])
def test_ctrl_c_while_kernels_that_code_are_compiled_is_not_lost(
    undisturbed, monkeypatch, name, is_in_read
):
    X = DATA
    if is_in_read:
        X = WatchedSource(DATA, Trouble(compile_and_interrupt, 1).call, is_in_memory=True)
    else:
        monkeypatch.setattr(Coder, "code", lambda *_: compile_and_interrupt())
    with pytest.raises(KeyboardInterrupt):
        getattr(undisturbed, name)(X)


def test_a_signal_that_has_no_handler_in_python_is_left_to_the_system():
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        with prompt_signals():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


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


def test_handlers_of_the_caller_are_called_and_restored(toy, tmp_path):
    heard = []

    def handler(signum, _):
        heard.append(signum)

    def send(progress):
        if progress.n_iter == 2:
            signal.raise_signal(signal.SIGTERM)
            assert heard == []  # it has to wait for the end of the step

    before = signal.signal(signal.SIGTERM, handler)
    try:
        model = DictionaryLearning(4, n_epochs=1, checkpoint=tmp_path / "c", callbacks=send).fit(
            toy
        )
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [signal.SIGTERM]
    assert model.n_samples_seen_ == 300


def test_ctrl_c_without_a_checkpoint_keeps_what_was_learned(toy, tmp_path):
    def press(progress):
        if progress.n_iter == 3:
            signal.raise_signal(signal.SIGINT)

    model = DictionaryLearning(4, batch_size=20, callbacks=press, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(toy)
    assert model.n_iter_ == 3
    part = DictionaryLearning(4, batch_size=20, callbacks=lambda p: p.n_iter == 3, random_state=0)
    np.testing.assert_array_equal(model.components_, part.fit(toy).components_)
    model.set_params(callbacks=()).save(tmp_path / "partial.somf", state=True)
    assert somf.load(tmp_path / "partial.somf").partial_fit(toy).n_samples_seen_ > 300
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_handlers_are_left_alone_in_other_threads(toy, tmp_path):
    seen = []

    def look(_):
        seen.append(signal.getsignal(signal.SIGINT))

    model = DictionaryLearning(4, callbacks=look, checkpoint=tmp_path / "c")
    thread = threading.Thread(target=model.fit, args=(toy,))
    thread.start()
    thread.join()
    assert set(seen) == {signal.getsignal(signal.SIGINT)}
    assert hasattr(model, "components_")


def test_a_second_ctrl_c_does_not_wait(toy, tmp_path):
    def hang(number):
        if number == 5:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            raise AssertionError("this would hang")

    with pytest.raises(KeyboardInterrupt):
        DictionaryLearning(4, checkpoint=tmp_path / "c").fit(WatchedSource(toy, hang))
    somf.load(tmp_path / "c")


@pytest.mark.parametrize("sample_ids", [None, np.arange(50)])
def test_ctrl_c_never_leaves_half_a_step_of_partial_fit_in_the_model(toy, monkeypatch, sample_ids):
    model = DictionaryLearning(4, reduction=2, batch_size=50, random_state=0)
    expected = DictionaryLearning(4, reduction=2, batch_size=50, random_state=0)
    update = somf.algorithm.dictionary.Dictionary.update

    def interrupt(self, *arguments):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        update(self, *arguments)

    monkeypatch.setattr(somf.algorithm.dictionary.Dictionary, "update", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(toy[:50], sample_ids=sample_ids)
    monkeypatch.undo()
    expected.partial_fit(toy[:50], sample_ids=sample_ids)
    assert model.n_iter_ == 1
    for name, array in expected._state.arrays().items():
        np.testing.assert_array_equal(model._state.arrays()[name], array, err_msg=name)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
