"""Fits inside the workers of a Dask cluster."""

import os
import signal
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("distributed", reason="Dask comes with the extra 'dask'")
pytest.importorskip("torch", reason="torch comes with the extra 'distributed'")

import dask.array as dask_array
import distributed

import somf
from somf.dask import fit
from somf.errors import NotFiniteError, ParameterError, RankError
from tests.helpers.problems import planted

X = planted(300, 40, 6)[0]

pytestmark = pytest.mark.filterwarnings("ignore")  # of Dask and its libraries


def model(**params):
    return somf.DictionaryLearning(
        **{
            "n_components": 6,
            "n_epochs": 3,
            "batch_size": 50,
            "tol": 0,
            "n_threads": 1,
            "random_state": 0,
        }
        | params
    )


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster, timeout=60) as client,
    ):
        yield client


def test_workers_learn_from_the_partitions_that_they_hold(client):
    fitted = fit(client, model(), dask_array.from_array(X, chunks=(50, 20)), validation=0.1)
    assert fitted.n_samples_seen_ == 3 * 270
    assert fitted.components_.shape == (6, 40)
    alone = model().fit(X)
    assert fitted.objective(X) == pytest.approx(alone.objective(X), rel=0.3)


def test_workers_share_the_rows_of_a_file(client, tmp_path):
    np.save(tmp_path / "x.npy", X)
    fitted = fit(client, model(), str(tmp_path / "x.npy"))
    assert fitted.n_samples_seen_ == 900
    assert fitted.objective(X) == pytest.approx(model().fit(X).objective(X), rel=0.3)


def test_the_error_of_a_worker_is_raised(client):
    spoiled = X.copy()
    spoiled[170, 3] = np.nan
    with pytest.raises(NotFiniteError):
        fit(client, model(), dask_array.from_array(spoiled, chunks=(50, 40)))
    assert fit(client, model(), dask_array.from_array(X, chunks=(150, 40))).n_iter_ == 18


def test_workers_in_one_process_are_refused(client, monkeypatch):
    monkeypatch.setattr(client, "run", lambda _: {"a": ("host", 1), "b": ("host", 1)})
    with pytest.raises(ParameterError, match="processes of their own"):
        fit(client, model(), dask_array.from_array(X, chunks=(150, 40)))


def test_a_cluster_without_workers_is_refused():
    empty = SimpleNamespace(run=lambda _: {})
    with pytest.raises(ParameterError, match="at least one worker"):
        fit(empty, model(), X)


def kill_one(progress):
    if progress.n_iter == 3 and distributed.get_worker().name == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_is_killed_ends_the_fit(client, monkeypatch):
    monkeypatch.setattr("somf.dask.SECONDS_TO_END", 0.5)
    with pytest.raises(RankError, match="does not answer"):
        fit(client, model(callbacks=[kill_one]), dask_array.from_array(X, chunks=(150, 40)))
