"""How the moves of atoms tell how much of the past is worth remembering."""

import math
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from somf import DictionaryLearning, load
from somf.algorithm.drift import (
    ABRUPT,
    EARLY_GAIN,
    ENTRIES,
    GAIN,
    JITTER,
    MOST_FALL,
    RISE,
    Drift,
    cosine_of_moves,
    followed_rows,
    lengthening,
    moves,
    resolution,
)
from somf.algorithm.forgetting import LEAST_EXPONENT, Adaptive
from somf.algorithm.solver import Solver
from somf.algorithm.state import FIRST_GROWTH, State
from somf.algorithm.state_check import check_state
from somf.data import as_source
from somf.distributed import Alone
from somf.training.samples import Samples
from somf.training.start import start
from tests.helpers.problems import planted


@pytest.fixture
def data():
    return planted(400, 60, 5)[0]


def moving(D, n_remembered=0.0):
    """Return a state of which nothing but the atoms is known."""
    empty = np.zeros((0, 0))
    state = SimpleNamespace(
        D=D,
        n_samples_seen=0,
        n_remembered=n_remembered,
        growth=0.82,
        window_start=0,
        rows_before=empty,
        last_move=empty,
    )
    state.forget_moves = partial(State.forget_moves, state)
    return state


def cosines(moves, n_remembered):
    """Return the cosines that are found while atoms move, one minibatch of one sample each."""
    state, found = moving(np.zeros((40, 50)), n_remembered), []
    drift = Drift(state, Adaptive(state), Alone())
    drift._set_growth = lambda cosine, *_: found.append(cosine)
    for D in moves:
        state.D, state.n_samples_seen = D, state.n_samples_seen + 1
        drift.follow(1, 1.0)
    return found


def test_atoms_that_follow_an_average_of_noise_turn_back_by_a_third():
    rng, N, D, path = np.random.default_rng(0), 20, np.zeros((40, 50)), []
    for _ in range(4000):
        D = (1 - 1 / N) * D + rng.standard_normal(D.shape) / N
        path.append(D)
    found = cosines(path[10 * N :], float(N))
    assert np.mean(found) == pytest.approx(-0.5 * (1 - math.exp(-1)), abs=0.01)


def test_atoms_that_drift_go_on():
    direction = np.random.default_rng(0).standard_normal((40, 50))
    assert cosines([t * direction for t in range(100)], 10.0) == pytest.approx([1.0] * 8)


def test_the_cosine_is_a_mean_over_the_atoms_that_have_moved():
    rng = np.random.default_rng(0)
    before, after = rng.standard_normal((2, 6, 4))
    before[:, 0] = after[:, 0] = 0.1  # drifts
    before[:, 1] = 0
    after[:, 3] = -9.0 * before[:, 3]  # turns back, and goes far
    pairs = [(before[:, j], after[:, j]) for j in (0, 2, 3)]
    expected = np.mean([a @ b / np.sqrt((a @ a) * (b @ b)) for a, b in pairs])
    assert cosine_of_moves(before, after) == pytest.approx(expected)
    tiny = 1e-15 * before.astype(np.float32)
    assert cosine_of_moves(tiny, after.astype(np.float32)) == pytest.approx(expected, abs=1e-6)


def test_a_few_atoms_that_go_far_in_one_direction_count():
    rng = np.random.default_rng(0)
    before = rng.standard_normal((30, 50))
    after = -0.3 * before  # all jitter
    before[:, :2] = after[:, :2] = 20.0  # but for two
    together = np.sum(before * after) / np.sqrt(np.sum(before**2) * np.sum(after**2))
    assert together > 0.5
    assert cosine_of_moves(before, after) == pytest.approx(together)
    before[:, :2] = after[:, :2] = 1e-3
    assert cosine_of_moves(before, after) < -0.9


def test_an_atom_that_has_moved_only_once_does_not_count():
    rng = np.random.default_rng(0)
    before, after = rng.standard_normal((2, 6, 4))
    after[:, :3] = -0.3 * before[:, :3]
    before[:, 3] = 0
    after[:, 3] *= 100
    assert cosine_of_moves(before, after) == pytest.approx(-1.0)
    assert cosine_of_moves(after, before) == pytest.approx(-1.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_atom_that_only_rounding_has_changed_has_rested(dtype):
    before = np.random.default_rng(0).standard_normal((50, 4)).astype(dtype)
    after = before.copy()
    after[:, 0] = np.nextafter(before[:, 0], dtype(np.inf))
    after[:, 1] *= 1.01
    move = moves(before, after)
    np.testing.assert_array_equal(move[:, 1], after[:, 1] - before[:, 1])
    assert not np.delete(move, 1, axis=1).any()
    assert move.dtype == dtype


def test_the_jump_of_an_atom_that_was_replaced_is_no_drift():
    state, jump = moving(np.zeros((40, 5)), 1.0), 100 * np.random.default_rng(0).random(40)
    drift, found = Drift(state, Adaptive(state), Alone()), []
    drift._set_growth = lambda cosine, *_: found.append(cosine)
    for i in range(8):
        state.D = (-1.0) ** i * np.ones((40, 5))  # all atoms turn back
        state.n_samples_seen += 1
        if i >= 4:
            state.D[:, 2] += jump
        if i == 4:
            drift.restart(np.array([2]))
        drift.follow(1, 1.0)
    assert found == pytest.approx([-1.0] * 6)


def test_a_stream_whose_only_atom_was_replaced_has_not_changed():
    state, rng = moving(np.zeros((40, 1)), 100.0), np.random.default_rng(0)
    drift = Drift(state, Adaptive(state), Alone())
    for i in range(400):
        state.D = rng.standard_normal((40, 1)) + 100 * (i >= 250)
        state.n_samples_seen += 1
        if i == 250:
            drift.restart(np.array([0]))
        drift.follow(1, 1.0)
        assert state.n_remembered == 100


def test_a_step_that_replaces_atoms_forgets_their_moves(data):
    model = DictionaryLearning(5, batch_size=20, reduction=1, random_state=0).partial_fit(data)
    state = model._state
    assert state.last_move[:, 2:4].any(axis=0).all()
    state.last_used[3] = -(10**6)
    state.window_start = state.n_samples_seen
    Solver(model.set_params(alpha=1e6)._config(), state).step(data[:20])  # no atom is used
    assert np.isnan(state.last_move[:, 3]).all()
    assert state.last_move[:, 2].any()
    check_state(model._config(), state, 60, data.dtype)


def test_atoms_that_rest_tell_nothing():
    state = moving(np.ones((6, 4)))
    drift = Drift(state, Adaptive(state), Alone())
    for _ in range(5):
        state.n_samples_seen += 10
        drift.follow(10, 1.0)
    assert state.growth == 0.82
    assert math.isnan(cosine_of_moves(np.zeros((6, 4)), np.ones((6, 4))))


@pytest.mark.parametrize("cosine", [-0.5, JITTER, 0.1, 0.9])
@pytest.mark.parametrize(("batch_size", "early"), [(1, 1e-4), (50, 0.25), (100, 1.0), (300, 1.0)])
def test_over_a_window_memory_grows_by_what_the_cosine_asks_for(cosine, batch_size, early):
    state = moving(np.ones((6, 4)), 100.0)
    state.n_samples_seen = 1000
    Drift(state, Adaptive(state), Alone())._set_growth(cosine, 100, batch_size)
    over_a_window = state.growth * math.log(1100 / 1000)
    expected = RISE * math.log(1.1) + (GAIN + early * EARLY_GAIN) * (JITTER - cosine)
    assert over_a_window == pytest.approx(max(expected, -MOST_FALL))


@pytest.mark.parametrize("shape", [(7, 3), (ENTRIES, 3), (1, 2 * ENTRIES)])
def test_few_rows_of_large_atoms_are_followed(shape):
    rows = followed_rows(*shape)
    assert len(set(rows)) == len(rows) == max(1, min(shape[0], ENTRIES // shape[1]))
    assert rows[0] == 0
    assert rows[-1] == (shape[0] - 1 if len(rows) > 1 else 0)


def test_a_window_is_as_long_as_the_memory_and_a_cycle_of_masks(data):
    config = DictionaryLearning(
        5, alpha=0.1, batch_size=20, reduction=4, learning_rate="auto"
    )._config()
    state = start(config, as_source(data), Samples.alone(400), 0, is_finite=True)
    solver, starts = Solver(config, state), [0]
    for i in range(100):
        rows = data[20 * (i % 20) : 20 * (i % 20) + 20, state.permutation]
        remembered = state.n_remembered
        solver.step(np.ascontiguousarray(rows))
        if state.window_start != starts[-1]:
            starts.append(state.window_start)
            length, remembered = starts[-1] - starts[-2], min(remembered, state.n_remembered)
            assert len(starts) == 2 or length >= max(remembered, 4 * 20)
    assert len(starts) > 5


def test_after_a_change_of_the_stream_most_is_forgotten(data):
    other = planted(400, 60, 5, seed=1)[0]
    model = DictionaryLearning(5, batch_size=20, reduction=1, random_state=0)
    for _ in range(10):
        model.partial_fit(data)
    before = model._state.n_remembered
    least = model._state.n_samples_seen**LEAST_EXPONENT
    assert before > 2 * least
    for _ in range(math.ceil(before / len(other))):  # until all that was remembered is replaced
        model.partial_fit(other)
    assert model._state.n_remembered < 1.1 * model._state.n_samples_seen**LEAST_EXPONENT


def test_a_change_after_atoms_have_rested_is_noticed(data):
    model = DictionaryLearning(5, batch_size=20, reduction=1, random_state=0)
    model.partial_fit(np.zeros((4000, 60)))
    before = model._state.n_remembered
    assert model.partial_fit(data)._state.n_remembered < before


def test_the_median_over_atoms_tells_how_much_further_they_move():
    before, after, least = *np.ones((2, 6, 5)), np.full(5, 1e-3)
    after[:, :2] = 100.0
    assert lengthening(before, 3 * after, least) == pytest.approx(3.0)
    before[:, 2:] = 0.0
    assert lengthening(before, after, least) == pytest.approx(100.0)


def test_a_move_after_a_rest_is_compared_with_what_rounding_may_do():
    rng = np.random.default_rng(0)
    before, rows = np.zeros((6, 5)), rng.standard_normal((6, 5)).astype(np.float32)
    least = resolution(rows)
    after = 3 * least * rows / np.linalg.norm(rows, axis=0)
    assert lengthening(before, after, least) == pytest.approx(3.0)
    assert lengthening(before, before, least) == 0.0
    assert (resolution(0 * rows) > 0).all()
    before[:, :3] = np.nan  # replaced
    after[:, :3] *= 100
    assert lengthening(before, after, least) == pytest.approx(3.0)
    assert lengthening(np.full((6, 5), np.nan), after, least) == 0.0


def test_a_jitter_as_small_as_rounding_is_no_change_of_the_stream(monkeypatch):
    rng, alarms = np.random.default_rng(0), []
    monkeypatch.setattr(Adaptive, "forget_most", alarms.append)
    state = moving(np.ones((40, 3), np.float32), 10.0)
    drift = Drift(state, Adaptive(state), Alone())
    limit = resolution(state.D)[0] / math.sqrt(40)
    for i in range(2000):
        jitter = rng.standard_normal((40, 3)) * limit * (1.5 - i / 2000)
        state.D = (np.ones((40, 3)) + jitter).astype(np.float32)
        state.n_samples_seen += 1
        drift.follow(1, 1.0)
    assert state.last_move.size
    assert not alarms


@pytest.mark.parametrize("n_replaced", [0, 1])
def test_a_change_after_a_rest_is_noticed_also_if_an_atom_was_replaced(n_replaced):
    state = moving(np.ones((40, 5)), 100.0)
    drift = Drift(state, Adaptive(state), Alone())
    for i in range(500):
        state.D = np.ones((40, 5)) + (i >= 400) * np.arange(40)[:, None] * i
        state.n_samples_seen += 1
        if i == 350:
            drift.restart(np.arange(n_replaced))
        drift.follow(1, 1.0)
        assert state.n_remembered == 100 or i >= 400
    assert state.n_remembered < 100


def test_samples_of_an_epoch_do_not_change_abruptly():
    state = moving(np.zeros((6, 4)), 500.0)
    forgetting = Adaptive(state)
    forgetting.expect_epochs(1000)
    drift = Drift(state, forgetting, Alone())
    state.n_samples_seen = 10_000
    for length in (0.0, 1.0, 1000.0):
        state.D = np.full((6, 4), length)
        drift.follow(500, 1.0)
        state.n_samples_seen += 500
    assert state.n_remembered == 500
    assert state.last_move.size


@pytest.mark.parametrize("factor", [0.9 * ABRUPT, 1.1 * ABRUPT])
def test_only_a_move_of_many_times_the_last_one_is_abrupt(factor):
    state = moving(np.zeros((6, 4)), 50_000.0)
    state.n_samples_seen = 100_000
    drift = Drift(state, Adaptive(state), Alone())
    for length in (0.0, 1.0, 1.0 + factor):
        state.D = np.full((6, 4), length)
        drift.follow(50_000, 1.0)
        state.n_samples_seen += 50_000
    is_abrupt = factor > ABRUPT
    assert (state.last_move.size == 0) == is_abrupt
    assert (state.n_remembered < 50_000) == is_abrupt


def test_a_stream_goes_on_from_a_file_as_it_would_have(data, tmp_path):
    params = {"alpha": 0.1, "batch_size": 20, "random_state": 0}
    model = DictionaryLearning(5, **params).partial_fit(data[:200])
    model.save(tmp_path / "m", state=True)
    again = load(tmp_path / "m")
    assert again._state.window_start > 0
    for one in (model, again):
        one.partial_fit(data[200:])
    assert model._state.n_remembered == again._state.n_remembered
    np.testing.assert_array_equal(model.components_, again.components_)


def test_passes_forget_the_moves_of_the_stream(data):
    model = DictionaryLearning(5, n_epochs=8, tol=0, random_state=0).fit(data)
    assert model._state.rows_before.size == model._state.last_move.size == 0
    assert model._state.window_start == 0
    assert model._state.growth == FIRST_GROWTH


def test_a_fit_without_passes_goes_on_as_a_stream_from_its_checkpoint_too(data, tmp_path):
    params = {"n_epochs": 2, "tol": 0, "batch_size": 20, "random_state": 0}
    model = DictionaryLearning(5, checkpoint=tmp_path / "c", **params).fit(data)
    again = load(tmp_path / "c")
    for one in (model, again):
        for _ in range(3):
            one.partial_fit(data)
    np.testing.assert_array_equal(model.components_, again.components_)


def test_a_stream_may_go_on_with_weights_of_the_paper(data, tmp_path):
    model = DictionaryLearning(5, batch_size=20, random_state=0).partial_fit(data)
    assert model._state.last_move.size
    model.set_params(learning_rate=0.9).partial_fit(data)
    assert model._state.rows_before.size == 0
    model.save(tmp_path / "m", state=True)
    load(tmp_path / "m").set_params(learning_rate="auto").partial_fit(data)


@pytest.mark.parametrize("params", [{"learning_rate": 0.9}, {"surrogate": "incremental"}])
def test_no_moves_are_compared_where_the_weights_are_given(data, params):
    state = DictionaryLearning(5, random_state=0, **params).partial_fit(data)._state
    assert state.window_start == 0
    assert state.n_remembered == 0
