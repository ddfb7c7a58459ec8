"""Parallel regions: in several threads, after a fork, in the workers of joblib."""

import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest

from somf import NMF, DictionaryLearning, SparsePCA
from somf.kernels.cpu import regions
from somf.kernels.cpu.regions import restore_num_threads

KINDS = (DictionaryLearning, SparsePCA, NMF)
X = np.random.default_rng(0).uniform(size=(120, 30))


def fitted(number, n_threads=2):
    """Return the atoms of a fit whose every kernel is a parallel region."""
    import somf.kernels.cpu.threads

    somf.kernels.cpu.threads.MIN_WORK_PER_THREAD = 0
    params = {"alpha": 0.1, "n_epochs": 5, "reduction": 2, "code_tol": 0}
    model = KINDS[number % 3](5, n_threads=n_threads, random_state=number, **params)
    return model.fit(X).components_


@pytest.fixture(autouse=True)
def shared_work(monkeypatch):
    monkeypatch.setattr("somf.kernels.cpu.threads.MIN_WORK_PER_THREAD", 0)


@pytest.mark.parametrize("number", range(3))
def test_the_same_number_of_threads_gives_the_same_bits(number):
    first = fitted(number, 3)
    for _ in range(3):
        np.testing.assert_array_equal(fitted(number, 3), first)


@pytest.mark.parametrize("number", range(3))
def test_any_number_of_threads_gives_the_same_result_to_rounding(number):
    for n_threads in (2, 3, 4):
        np.testing.assert_allclose(fitted(number, n_threads), fitted(number, 1), atol=1e-9)


def test_several_python_threads_may_fit_at_the_same_time():
    expected = [fitted(number) for number in range(12)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(fitted, range(12)))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_workers_of_joblib_fit(backend):
    expected = [fitted(number) for number in range(4)]
    found = joblib.Parallel(n_jobs=2, backend=backend)(
        joblib.delayed(fitted)(number) for number in range(4)
    )
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_fits_after_its_parent_has():
    expected = [fitted(number) for number in range(3)]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        found = pool.map_async(fitted, range(3)).get(timeout=120)
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_leaves_the_pool_usable_unless_any_code_has_used_it(monkeypatch):
    pool = regions._Pool()
    monkeypatch.setattr(regions.parallel, "_is_initialized", False)
    pool.forked()
    assert pool.is_usable
    monkeypatch.setattr(regions.parallel, "_is_initialized", True)
    pool.forked()
    assert not pool.is_usable


def test_a_signal_handler_may_compute_while_a_region_ends():
    regions._pool.start()
    with regions._pool.lock:
        regions._pool.use(2)
        fitted(0)
    restore_num_threads()


@pytest.mark.parametrize("layer", ["workqueue", "omp"])
def test_every_threading_layer_of_numba_gives_the_same_result(layer):
    program = """
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from tests.kernels.test_regions import fitted
with ThreadPoolExecutor(3) as pool:
    print(repr(np.sum([abs(atoms).sum() for atoms in pool.map(fitted, range(6))])))
import numba
print(numba.threading_layer())
"""
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"NUMBA_THREADING_LAYER": layer},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if "No threading layer could be loaded" in answer.stderr:
        pytest.skip(f"Numba has no threading layer {layer} here")
    assert answer.returncode == 0, answer.stderr
    total, used = answer.stdout.split()
    assert used == layer
    expected = sum(abs(fitted(number)).sum() for number in range(6))
    assert float(total.removeprefix("np.float64(").removesuffix(")")) == pytest.approx(expected)


def test_without_a_threading_layer_regions_run_on_one_thread():
    answer = subprocess.run(
        [sys.executable, "-c", "from tests.kernels.test_regions import fitted; fitted(0)"],
        env=os.environ | {"NUMBA_THREADING_LAYER": "tbb"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
