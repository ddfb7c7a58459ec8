"""Checkpoints of several ranks: kill them at any moment, resume on any number of them."""

import os
import random
import signal
import time

import numpy as np
import pytest

import somf
from tests.distributed import jobs
from tests.helpers.ranks import team

SETTINGS = jobs.params(n_epochs=4)
"""Those of all fits here: 16 iterations."""


def stopped(ranks, path, n_iter, *which):
    """Fit until an iteration, at which all ranks raise an error."""
    ranks.start(jobs.fit_with_checkpoint, path, n_iter, *which)
    ranks.collect(ranks.size)


@pytest.mark.parametrize("which", ["dense", "few unknown"])
@pytest.mark.parametrize("surrogate", ["online", "incremental"])
def test_a_fit_resumes_bit_by_bit_on_the_same_number_of_ranks(ranks, tmp_path, surrogate, which):
    missing = "error" if which == "dense" else "nan"
    settings = SETTINGS | {"surrogate": surrogate, "missing": missing}
    whole = ranks.run(jobs.fit_with_checkpoint, tmp_path / "whole", 0, settings, which)
    for n_iter in (3, 9):
        stopped(ranks, tmp_path / "c", n_iter, settings, which)
    resumed = ranks.run(jobs.fit_with_checkpoint, tmp_path / "c", 0, settings, which)
    for (components, *others), expected in zip(resumed, whole, strict=True):
        assert components.tobytes() == expected[0].tobytes()
        assert others == list(expected[1:])


@pytest.mark.parametrize("surrogate", ["online", "incremental"])
def test_a_fit_continues_on_another_number_of_ranks(two, four, tmp_path, surrogate):
    settings, path = SETTINGS | {"surrogate": surrogate}, tmp_path / "c"
    stopped(two, path, 5, settings)
    stopped(four, path, 7, settings)  # in the same epoch
    stopped(two, path, 10, settings)
    X = jobs.samples()
    model = somf.DictionaryLearning(**settings, checkpoint=path).fit(X, validation=0.2)
    assert model.n_iter_ == 16
    assert model.n_samples_seen_ == 4 * 105
    whole = two.run(jobs.fit_with_checkpoint, tmp_path / "whole", 0, settings)
    assert model.history_["objective"][-1] == pytest.approx(whole[0][2][-1], rel=0.1)
    visits = model._state.memory.n_visits
    assert set(visits.tolist()) <= {0, 4}  # no sample was lost or seen twice in an epoch
    assert (visits == 4).sum() == (105 if surrogate == "online" else (visits == 4).sum())


def test_a_fit_of_one_process_continues_on_several_ranks(two, tmp_path):
    X, path = jobs.samples(), tmp_path / "c"
    callback = jobs.stop_at(6, lambda: jobs.interrupted(6))
    model = somf.DictionaryLearning(**SETTINGS, checkpoint=path, callbacks=[callback])
    with pytest.raises(InterruptedError):
        model.fit(X, validation=0.2)
    found = two.run(jobs.fit_with_checkpoint, path, 0, SETTINGS)
    assert found[0][1] == 16


@pytest.mark.parametrize("surrogate", ["online", "incremental"])
def test_one_process_goes_on_learning_where_several_ranks_have_stopped(two, tmp_path, surrogate):
    path, settings = tmp_path / "c", SETTINGS | {"surrogate": surrogate, "code_tol": 1e-12}
    models = two.run(jobs.fit_and_save, path, settings)
    whole = jobs.replay("DictionaryLearning", settings, jobs.samples(), 2)
    for name in ("D", "B", "C", "n_users", "last_used"):
        np.testing.assert_allclose(getattr(models[0]._state, name), getattr(whole, name), atol=1e-9)
    later = jobs.samples(n=60)
    for model in (*models, somf.load(f"{path}.model"), somf.load(path)):
        model.partial_fit(later, sample_ids=np.arange(1000, 1060))
        assert model.components_.tobytes() == models[0].components_.tobytes()
        assert model.n_samples_seen_ == 4 * 131 + 60
        np.testing.assert_array_equal(model._state.memory.ids, np.arange(1000, 1060))


def test_killing_a_rank_at_any_moment_leaves_a_checkpoint_that_resumes(two, tmp_path):
    path, rng = tmp_path / "c", random.Random(0)
    settings = SETTINGS | {"n_epochs": 100}
    for n_kills in range(10):
        with team(2, tmp_path) as ranks:
            before = path.stat().st_mtime_ns if path.exists() else 0
            ranks.start(jobs.fit_with_checkpoint, path, 0, settings)
            deadline = time.time() + 60
            while not path.exists() or path.stat().st_mtime_ns == before:
                assert time.time() < deadline
                time.sleep(0.005)
            time.sleep(rng.random() * 0.1)
            victim = ranks.processes[n_kills % 2]
            os.kill(victim.pid, signal.SIGKILL)
            ranks.collect(1)
    n_done = somf.load(path).n_iter_
    settings = SETTINGS | {"n_epochs": n_done // 4 + 2}
    whole = two.run(jobs.fit_with_checkpoint, tmp_path / "whole", 0, settings)
    resumed = two.run(jobs.fit_with_checkpoint, path, 0, settings)
    assert resumed[0][0].tobytes() == whole[0][0].tobytes()
    shares = [each.name for each in tmp_path.iterdir() if each.name.startswith("c.")]
    assert len(shares) == 2 * 2 + 1  # those of the checkpoint and of the previous one, and that
